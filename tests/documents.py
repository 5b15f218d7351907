"""README and docs as a person uses them: blocks of code, and command lines with the reader's own places put in.

What a block is, its language says. `python`, `bash` and `sql` are run, so is each `holdfast` line in a block of `sh`;
`text` and `mermaid` are to be looked at.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LANGUAGES = {"python", "sh", "bash", "sql", "text", "mermaid"}
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(holdfast [^`]+)`")
_SYNOPSIS = re.compile(r"[\[|…]|\.\.\.|\bFILE\b|\bCOMMAND\b")


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str

    def lines(self) -> list[str]:
        """Those of a shell; what goes to the input of a command (`<<END`) is left out."""
        return re.sub(r"^([^\n]*<<(\w+)\n).*?^\2\n", r"\1", self.text, flags=re.MULTILINE | re.DOTALL).splitlines()


@dataclass(frozen=True)
class Command:
    """A command line of holdfast."""

    page: Path
    line: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}: {self.line}"

    @property
    def name(self) -> str:
        return self.line.split()[1]

    @property
    def asks_a_running_job(self) -> bool:
        asks = self.name in ("checkpoint", "stop") or "savepoint create" in self.line
        return asks and "--from" not in self.line

    @property
    def stops_a_job(self) -> bool:
        return self.name == "stop" or "--stop" in self.line

    @property
    def reads_logs(self) -> bool:
        return self.name == "doctor" and "--job" not in self.line and self.line != "holdfast doctor"

    def words(self, places: Mapping[str, str]) -> list[str]:
        """Its arguments, in which `places` are put for what the page has there, the first that fits for each word."""
        line = self.line
        for shown, real in places.items():
            line = re.sub(rf"(?<![\w/]){shown}(?![\w/])", real, line)
        return shlex.split(line, comments=True)[1:]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    return [Block(page, language, text) for language, text in _FENCED.findall(page.read_text())]


def commands(page: Path) -> list[Command]:
    """Those in blocks, and those in the text that say more than the name of a command."""
    text = _FENCED.sub("", page.read_text())
    inline = [line for line in _INLINE.findall(text) if " -" in line or " NAME" in line or " DIR" in line]
    in_blocks = [line for block in blocks(page) if block.language == "sh" for line in block.lines()]
    found = [line for line in [*in_blocks, *inline] if line.startswith("holdfast ") and not _SYNOPSIS.search(line)]
    return [Command(page, shlex.join(shlex.split(line, comments=True))) for line in dict.fromkeys(found)]


def every_command() -> list[Command]:
    """Each line once, on the first page that has it."""
    return list({command.line: command for page in reversed(PAGES) for command in commands(page)}.values())[::-1]
