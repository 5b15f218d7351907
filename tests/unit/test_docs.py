"""What README and docs name exists: tests, commands and their options, targets of make, links. Snippets parse."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer

from holdfast.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def code_of(page: Path) -> list[tuple[str, str]]:
    """Blocks: language, text. Those that are indented have none."""
    text = page.read_text()
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [*fenced, *(("", line.strip()) for line in re.findall(r"^    (holdfast .*)$", rest, re.MULTILINE))]


def called(page: Path) -> list[str]:
    """Command lines of holdfast, in blocks and in the text; what is shown with output begins with `$`."""
    lines = [line.strip() for _, block in code_of(page) for line in block.splitlines()]
    inline = re.findall(r"`(holdfast [^`]+)`", page.read_text())
    return [line for line in [*lines, *inline] if line.startswith("holdfast ")]


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
    for language, block in code_of(page):
        if language == "python":
            ast.parse(block)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_target_of_make_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    blocks = "\n".join(block for _, block in code_of(page))
    named = set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^make ([a-z-]+)", blocks, re.MULTILINE))
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
