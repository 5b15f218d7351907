"""Each fence of the house refuses what climbs over it: a violation is planted in a copy of the source, and seen."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
CONTRACTS = SETUP["importlinter"]["contracts"]
BANS = SETUP["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
HOUSE = ROOT / "src" / "holdfast"


@dataclass(frozen=True)
class Planted:
    fence: str
    """Words of the refusal: the name of the contract, or the rule and what to use instead."""
    module: str
    line: str
    tool: str = "lint-imports"


IMPORTS = (
    Planted("Layers of ARCHITECTURE.md", "storage/keys.py", "import holdfast.repository.journal"),
    Planted("Layers of ARCHITECTURE.md", "a_new_room/__init__.py", ""),
    Planted("Decisions are pure", "coordination/lifecycle.py", "import time"),
    Planted("Decisions are pure", "checkpoint/layout.py", "import pathlib"),
    Planted("Words and verdicts are pure", "history/__init__.py", "import threading"),
    Planted("The repository waits for nothing", "repository/retention.py", "import time"),
    Planted("Layers of ARCHITECTURE.md", "repository/blobs.py", "import holdfast.workdir.restorer"),
    Planted("Layers of ARCHITECTURE.md", "workdir/restorer.py", "import holdfast.repository.blobs"),
    Planted("Nobody asks which kind a work directory is", "runtime/job_folder.py", "import holdfast.workdir.hdfs"),
    Planted("Rooms of workdir", "workdir/planned_file.py", "import holdfast.workdir.mounted"),
    Planted("No Spark below holdfast.spark", "runtime/run/loop.py", "import pyspark"),
    Planted("Only sources/kafka_client.py asks brokers", "runtime/run/loop.py", "import confluent_kafka"),
    Planted("What is said about sources is pure", "sources/positions.py", "import time"),
    Planted("Log lines name their job", "cli/status.py", "import logging"),
    Planted("Rooms of the runtime", "runtime/lanes.py", "import holdfast.runtime.run.loop"),
    Planted("Rooms of the doctor", "doctor/reading/times.py", "import holdfast.doctor.matching.case"),
    Planted("The doctor's knowledge is pure", "doctor/diagnosis/timeline.py", "import pyspark"),
)
CALLS = (
    Planted("Take a `clock`", "runtime/recovery/memory.py", "import time\n\nNOW = time.monotonic()", "ruff"),
    Planted("Take `now`", "repository/views.py", "import datetime\n\nNOW = datetime.datetime.now()", "ruff"),
    Planted("Await an event", "runtime/run/loop.py", "import time\n\ntime.sleep(1)", "ruff"),
    Planted("storage/unique.py", "sinks/ledger.py", "import uuid\n\nNAME = uuid.uuid4()", "ruff"),
    Planted("Take `draw`", "runtime/query/supervision.py", "import random\n\nDRAWN = random.random()", "ruff"),
    Planted("Take a `clock` or `now`", "repository/views.py", "import time\n\nNOW = time.time()", "ruff"),
    Planted("with a time zone", "repository/views.py", "import datetime\n\nNOW = datetime.datetime.utcnow()", "ruff"),
    Planted("Take `draw`", "runtime/query/supervision.py", "import random\n\nDRAWN = random.choice([1])", "ruff"),
    Planted("use subprocess", "runtime/lanes.py", "import os\n\nos.fork()", "ruff"),
    Planted("msgspec.json.Decoder", "sinks/ledger.py", "import msgspec\n\nmsgspec.json.decode(b'1')", "ruff"),
    Planted("job_log.log", "sinks/ledger.py", 'import logging\n\nLOG = logging.getLogger("x")', "ruff"),
)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fenced")
    shutil.copytree(ROOT / "src", root / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


@pytest.mark.long
@pytest.mark.parametrize("planted", [*IMPORTS, *CALLS], ids=lambda planted: f"{planted.module} {planted.line[:20]!r}")
def test_a_planted_violation_is_refused(copied: Path, planted: Planted) -> None:
    module = copied / "src" / "holdfast" / planted.module
    before = module.read_text() if module.exists() else None
    module.parent.mkdir(exist_ok=True)
    try:
        module.write_text(f"{before or ''}\n{planted.line}\n")
        refused = _check(copied, planted)
    finally:
        if before is None:
            shutil.rmtree(module.parent)
        else:
            module.write_text(before)
    assert refused.returncode == 1
    said = " ".join(refused.stdout.split())
    broken = r"((?!KEPT).)* BROKEN" if planted.tool == "lint-imports" else ""
    assert re.search(re.escape(planted.fence) + broken, said), refused.stdout


@pytest.mark.long
def test_without_violations_nothing_is_refused(copied: Path) -> None:
    for tool in ("lint-imports", "ruff"):
        checked = _check(copied, Planted("", ".", "", tool))
        assert checked.returncode == 0, checked.stdout


def _check(root: Path, planted: Planted) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).parent / planted.tool)
    command = (
        [program, "--no-cache"]
        if planted.tool == "lint-imports"
        else [program, "check", "--no-cache", "--select", "TID251", str(root / "src" / "holdfast" / planted.module)]
    )
    return subprocess.run(
        command,
        cwd=root,
        env={"PYTHONPATH": str(root / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def modules(under: Path) -> Iterable[tuple[str, ast.Module]]:
    return ((str(path.relative_to(under)), ast.parse(path.read_text())) for path in sorted(under.rglob("*.py")))


def shared_names(under: Path) -> dict[str, list[str]]:
    """Of each name that several classes have, the modules that they are in."""
    found = defaultdict(list)
    for module, tree in modules(under):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def test_a_name_means_one_class(tmp_path: Path) -> None:
    assert shared_names(HOUSE) == {}
    (tmp_path / "one.py").write_text("class Place: ...")
    (tmp_path / "other.py").write_text("class Place: ...")
    assert shared_names(tmp_path) == {"Place": ["one.py", "other.py"]}


KINDS = {"Path", "PurePath", "PosixPath", "PurePosixPath", "HdfsPath", "MountedDirectory", "HdfsDirectory"}


def kinds_asked(module: Path) -> list[str]:
    """Lines that ask which kind a path or a work directory is. Together with `str` it is the check of an argument."""
    asked: list[ast.expr] = []
    for node in ast.walk(ast.parse(module.read_text())):
        match node:
            case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, kinds]):
                asked.append(kinds)
            case ast.MatchClass(cls=kind):
                asked.append(kind)
            case ast.Compare(left=ast.Call(func=ast.Name("type")), comparators=kinds):
                asked.extend(kinds)
    return [f"{module.name}:{kind.lineno}" for kind in asked if _names(kind) & KINDS and "str" not in _names(kind)]


def _names(expression: ast.expr) -> set[str]:
    found = [node for node in ast.walk(expression) if isinstance(node, ast.Name | ast.Attribute)]
    return {node.id if isinstance(node, ast.Name) else node.attr for node in found}


def test_nobody_asks_which_kind_a_path_is() -> None:
    """What differs between places is an ability of `workdir.interface.DirectoryAbilities`."""
    assert [line for module in sorted((ROOT / "src").rglob("*.py")) for line in kinds_asked(module)] == []


@pytest.mark.parametrize(
    "planted",
    [
        "isinstance(work, Path)",
        "isinstance(work, pathlib.PurePath)",
        "isinstance(work, (int, HdfsDirectory))",
        "isinstance(work, Path | HdfsPath)",
        "issubclass(kind, MountedDirectory)",
        "type(work) is Path",
        "match work:\n    case Path():\n        pass",
    ],
)
def test_whoever_asks_it_is_found(tmp_path: Path, planted: str) -> None:
    (tmp_path / "asks.py").write_text(f"x = isinstance(given, str | Path)\n{planted}\n")
    assert len(kinds_asked(tmp_path / "asks.py")) == 1


def test_each_fence_has_a_planted_violation() -> None:
    fences = {planted.fence for planted in IMPORTS}
    assert [name for c in CONTRACTS if not any((name := c["name"]).startswith(fence) for fence in fences)] == []
    calls = [planted.line for planted in CALLS]
    assert [name for name in BANS if not any(f"{name}(" in line for line in calls)] == []


def test_each_ban_names_what_to_use_instead() -> None:
    assert all(re.match("(Use|Take|Await|Make) |.*: use ", ban["msg"]) for ban in BANS.values())


def test_no_fence_forgets_a_module() -> None:
    """Where a fence needs a list, the list is whole."""
    fences = [contract for contract in CONTRACTS if "pyspark" in contract.get("forbidden_modules", ())]
    sparkless = {source for fence in fences for source in fence["source_modules"]}
    below = [name for path in HOUSE.iterdir() if (name := path.stem) not in ("__pycache__", "__init__", "py")]
    uses_spark = {"cli", "testing", "doctor", "spark", "sinks", "options", "settings"}
    assert sorted(f"holdfast.{name}" for name in below if name not in uses_spark) == sorted(
        source for source in sparkless if source.count(".") == 1
    )
    rooms = {path.parent.name for path in (HOUSE / "doctor").glob("*/__init__.py")}
    assert {source.rpartition(".")[2] for source in sparkless if ".doctor." in source} == rooms - {"spark"}


def test_each_package_says_what_it_is_what_it_may_import_and_what_it_never_does() -> None:
    for path in sorted(HOUSE.rglob("__init__.py")):
        said = ast.get_docstring(ast.parse(path.read_text())) or ""
        where = str(path.parent.relative_to(HOUSE))
        assert len(said.splitlines()) >= 3, where
        assert re.search(r"\b(Imports?|imports?)\b", said), where
        assert re.search(r"\b([Nn]ever|[Nn]othing|Pure)\b", said), where
