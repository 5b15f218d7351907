"""Wrong input is a clear error with its exit code, before anything is touched."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.main import main
from tests.end_to_end.harness import WARM_JVM
from tests.end_to_end.warm_jvm import WarmJvm
from tests.patience import PATIENCE

STREAMING = """
def orders(spark):
    return spark.readStream.format("rate").load()
"""
NOT_STREAMING = """
def orders(spark):
    return spark.range(3)
"""
NOT_A_FRAME = """
def orders(spark):
    return "orders"
"""


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.home.mkdir()
        (root / "streaming.py").write_text(STREAMING)
        (root / "not_streaming.py").write_text(NOT_STREAMING)
        (root / "not_a_frame.py").write_text(NOT_A_FRAME)

    def command(self, file: str = "streaming.py", **options: str) -> list[str]:
        given = {
            "home": f"file://{self.home}",
            "job": "orders",
            "sink": f"delta:{self.root / 'out'}",
            "work": str(self.root / "work"),
            "master": "local[1]",
        } | options
        named = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
        return ["run", str(self.root / file), *named]

    def run(
        self, file: str = "streaming.py", jvm: WarmJvm | None = None, **options: str
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast.cli", *self.command(file, **options)]
        environment = {**os.environ, **(jvm.environment() if jvm else {})}
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)

    def untouched(self) -> bool:
        """But for what Spark printed, if it had to be started to find out."""
        work = [path.suffixes for path in (self.root / "work").glob("*")]
        return not any(self.home.iterdir()) and not (self.root / "out").exists() and set(map(tuple, work)) <= {_PRINTED}


_PRINTED = (".spark", ".log")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the command changes of a process that is its own."""
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    logger = logging.getLogger("holdfast")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.level, logger.propagate = before


def require_refused(place: Place, done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    require_said(place, done.stderr, *words)


def require_said(place: Place, message: str, *words: str) -> None:
    for word in words:
        assert word in message
    assert "Traceback" not in message
    assert place.untouched()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"interval": "soon"}, ("interval", "soon", "500ms")),
        ({"interval": "0s"}, ("interval", "at least")),
        ({"retained": "0"}, ("retained", "at least 1")),
        ({"max_concurrent": "many"}, ("max-concurrent",)),
        ({"on_exceeded": "panic"}, ("panic", "alert")),
        ({"output_mode": "overwrite"}, ("output", "append")),
        ({"output_mode": "complete"}, ("output_mode", "complete", "supports only append", "foreachBatch")),
        ({"trigger": "sometimes"}, ("trigger",)),
        ({"job": "a/b"}, ("job", "a/b")),
        ({"job": ".."}, ("job",)),
        ({"job": "a..b"}, ("job", "..")),
        ({"sink": "paper:/x"}, ("sink", "delta:")),
        ({"home": "ftp://x/y"}, ("home", "file:///")),
        ({"no_such_option": "1"}, ("no-such-option",)),
    ],
)
def test_a_wrong_value_names_the_field_the_value_and_the_rule(
    place: Place,
    options: dict[str, str],
    words: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    in_this_process: None,
) -> None:
    assert main(place.command(**options)) == 2
    require_said(place, capsys.readouterr().err, *words)


def test_a_home_that_does_not_exist_is_not_created(place: Place) -> None:
    missing = place.root / "missing"
    done = place.run(home=f"file://{missing}")
    require_refused(place, done, 6, str(missing), "mkdir -p")
    assert not missing.exists()


def test_a_home_that_cannot_be_written(place: Place) -> None:
    """A file system that is read-only stops root too."""
    read_only = Path("/proc/sys/kernel")
    require_refused(place, place.run(home=f"file://{read_only}"), 6, str(read_only), "could not create")


def test_a_home_that_is_a_file(place: Place) -> None:
    file = place.root / "file"
    file.write_text("")
    require_refused(place, place.run(home=f"file://{file}"), 6, "not a directory")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("not_streaming.py", ("orders", "streaming DataFrame", "readStream")),
        ("not_a_frame.py", ("orders", "streaming DataFrame", "str")),
        ("no_such_file.py", ("no_such_file.py",)),
    ],
)
def test_a_file_that_is_no_pipeline(place: Place, file: str, words: tuple[str, ...]) -> None:
    require_refused(place, place.run(file, WARM_JVM), 2, *words)


def test_a_work_directory_of_another_job(place: Place) -> None:
    work = place.root / "others"
    (work / "orders").mkdir(parents=True)
    marker = {"job": "orders", "home": "file:///somewhere/else", "lineage": "x"}
    (work / "orders" / "job.json").write_bytes(msgspec.json.encode(marker))
    require_refused(place, place.run(work=str(work)), 2, "file:///somewhere/else", "--work")
    require_refused(place, place.run(work=str(work / "orders")), 2, "work directory")


def test_a_home_written_by_a_newer_format(place: Place) -> None:
    journal = place.home / "orders" / "journal"
    journal.mkdir(parents=True)
    entry = journal / f"{1:020d}.json"
    entry.write_text('{"format": 99, "kind": "something-new", "sequence": 1}')
    done = place.run()
    assert done.returncode == 2, done.stderr
    assert "format 99" in done.stderr
    assert "upgrade" in done.stderr
    assert [path.name for path in journal.iterdir()] == [entry.name]
