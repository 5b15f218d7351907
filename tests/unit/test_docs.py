"""What README and docs name exists: tests, commands and their options, targets of make, extras, links.

Blocks of code say what they are; what runs is run by tests/**/test_documented_*.py and test_format_by_hand.py.
"""

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from holdfast.cli.main import app
from tests.documents import LANGUAGES, PAGES, ROOT, blocks, name_of

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
OTHER_PROGRAMS = {
    "docker": "tests/unit/test_deployment.py",
    "export": "tests/unit/test_documented_commands.py",
    "holdfast": "tests/unit/test_documented_commands.py",
    "kubectl": "tests/unit/test_deployment.py",
    "make": "tests/unit/test_docs.py",
    "mkdir": "tests/end_to_end/test_documented_runs.py",
    "pip": "tests/install/test_extras.py",
    "python": "tests/end_to_end/test_documented_runs.py",
    "sudo": "tests/unit/test_deployment.py",
}
"""What may stand in a block of `sh`, and which test shows what it does, or as much of it as there is here."""


def called(page: Path) -> list[str]:
    """Command lines of holdfast, in blocks and in the text; what is shown with output begins with `$`."""
    lines = [line.strip() for block in blocks(page) for line in block.text.splitlines()]
    inline = re.findall(r"`(holdfast [^`]+)`", page.read_text())
    return [line for line in [*lines, *inline] if line.startswith("holdfast ")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert page.read_text().count("\n```") == 2 * len(blocks(page))
    unfenced = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"^    +(?:holdfast|\$) .*$", unfenced, re.MULTILINE), "a command that no test runs"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_program_of_a_block_is_shown_somewhere(page: Path) -> None:
    lines = [line for block in blocks(page) if block.language == "sh" for line in block.lines()]
    assert {line.split()[0] for line in lines if line} <= OTHER_PROGRAMS.keys()
    assert all((ROOT / path).exists() for path in OTHER_PROGRAMS.values())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_extra_that_is_named_exists(page: Path) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = ",".join(re.findall(r"holdfast-spark\[([a-z,]+)\]", page.read_text()))
    assert set(named.split(",")) - {""} <= extras.keys()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_function_of_a_test_that_is_named_exists(page: Path) -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    named = set(re.findall(r"\b(test_\w+)\b(?!\.py)", page.read_text()))
    assert not {name for name in named if f"def {name}(" not in tests and not _is_a_file(name)}


def _is_a_file(name: str) -> bool:
    return any((ROOT / "tests").rglob(f"{name}.py"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_that_is_named_exists(page: Path) -> None:
    named = set(re.findall(r"(?:tests/[\w/]*/)?test_\w+\.py", page.read_text()))
    missing = {
        name for name in named if not ((ROOT / name).exists() if "/" in name else any((ROOT / "tests").rglob(name)))
    }
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_and_option_that_is_named_exists(page: Path) -> None:
    unknown = [line for line in called(page) if not _is_known(line)]
    assert not unknown


def _is_known(line: str) -> bool:
    words = [word.strip("[]|\\") for word in _words(line)]
    command = COMMANDS.get(words[1])
    if command is None:
        return words[1] in ("--help", "--version", "COMMAND")
    known = set()
    for each in (command, *getattr(command, "commands", {}).values()):
        known |= {name for parameter in each.params for name in (*parameter.opts, *parameter.secondary_opts)}
    options = {word.partition("=")[0] for word in words[2:] if re.match(r"--?[a-z]", word)}
    return options <= known | {"--help"}


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation mark in what is said beside it
        return line.split()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_snippet_of_python_parses(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_target_of_make_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    code = "\n".join(block.text for block in blocks(page))
    named = set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^make ([a-z-]+)", code, re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+?)(?:#([\w-]+))?\)", page.read_text())
    lost = []
    for target, anchor in links:
        if "://" in target:
            continue
        path = page.parent / target
        if not path.exists() or (anchor and anchor not in _anchors(path)):
            lost.append(f"{target}#{anchor}")
    assert not lost


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_file_that_the_architecture_names_exists() -> None:
    named = re.findall(
        r"`((?:[\w{},]+/)*[\w{},]+(?:\.py|/)|\w+(?:/\w+)+\.\w+)`", (ROOT / "ARCHITECTURE.md").read_text()
    )
    missing = [name for name in named if not _is_in_source(name)]
    assert len(named) > 50
    assert not missing


def _is_in_source(name: str) -> bool:
    module, _, attribute = name.partition(".")
    path = ROOT / "src" / "holdfast" / name
    if path.exists() or attribute in ("py", "md"):
        return path.exists()
    source = path.parent / f"{Path(module).name}.py"
    return source.exists() and re.search(rf"^(def|class) {attribute}\b", source.read_text(), re.MULTILINE) is not None


def test_every_file_and_name_that_contributors_are_sent_to_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Releasing")[0]
    named = re.findall(r"`((?:[\w.-]+/)*[\w.-]+(?:\.(?:py|toml)|/[\w-]*))`", text)
    assert len(named) > 40
    assert not [name for name in named if not _found(name)]
    held = re.findall(r"`([A-Z_]+)` (?:of|in) `([\w/]+\.py)`", text)
    assert len(held) >= 2
    assert not [(name, file) for name, file in held if not re.search(rf"^{name}\b", _found(file), re.MULTILINE)]


def _found(name: str) -> str:
    """What the file holds; a name of tests stands without its folder only beside other names of that folder."""
    places = [ROOT / name, ROOT / "src" / "holdfast" / name, *(ROOT / "tests").glob(f"*/{name}")]
    path = next((path for path in places if path.exists()), None)
    return "" if path is None else "a folder" if path.is_dir() else path.read_text()


def test_every_row_of_what_is_trusted_names_a_test_of_its_file() -> None:
    table = (ROOT / "docs" / "trust.md").read_text().split("## The table")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| **")]
    assert rows
    for row in rows:
        named = re.fullmatch(r".* \| \[`(test_\w+)`\]\(\.\./(tests/\w+/test_\w+\.py)\) \|", row)
        assert named is not None, row
        assert re.search(rf"\bdef {named[1]}\(", (ROOT / named[2]).read_text()), row


def test_the_architecture_fits_on_three_screens() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    assert len(lines) <= 150
    assert max(map(len, lines)) <= 140
