"""Output: documents and answers go to standard output, everything else to standard error."""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.showing import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_PIPE_WIDTH = 1000
"""Lines are not wrapped when standard output is not a terminal."""
_LABEL_WIDTH = 12
_UNSPELT = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


_WIDE: ContextVar[bool] = ContextVar("wide", default=False)

_HELD: list[Any] = []
"""At most one: the document of the command."""
_AS_LINES: list[bool] = []
"""Not empty when the documents of the command are lines."""


def print_json(document: Any) -> None:
    """The one document of a command. It is written when the command has ended, with the error if it ended in one."""
    _HELD[:] = [document]


def write_document(error: Mapping[str, Any] | None = None) -> None:
    """The command's JSON document, if any, with the error that it failed with in the same document."""
    document = _HELD.pop() if _HELD else None
    if error is not None:
        found = msgspec.to_builtins(document)
        document = {**(found if isinstance(found, dict) else {}), "error": error}
    if document is not None and _AS_LINES:
        write_json_line(document)
    elif document is not None:
        write_json(document)
    _AS_LINES.clear()


def documents_as_lines() -> None:
    """For a command that does not end by itself: each document is one line, also the error that it fails with."""
    _AS_LINES[:] = [True]


def write_json_line(document: Any) -> None:
    sys.stdout.write(_escaped(msgspec.json.encode(document).decode()) + "\n")
    sys.stdout.flush()


def write_json(document: Any) -> None:
    """Indented for people; times are RFC 3339 in UTC."""
    sys.stdout.write(json_text(document))


def json_text(document: Any) -> str:
    """JSON escapes the control characters of ASCII; this escapes those of Unicode."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return _escaped(text) + "\n"


def _escaped(text: str) -> str:
    return _UNSPELT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line_json(document: Any) -> str:
    return _UNSPELT.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(document).decode())


def answer() -> "Console":
    """Standard output, coloured and wrapped only on a terminal."""
    return _console(stderr=False)


@contextmanager
def wide_output() -> Iterator[None]:
    """Answers in this block are not cut to the width of the terminal."""
    before = _WIDE.set(True)
    try:
        yield
    finally:
        _WIDE.reset(before)


def messages() -> "Console":
    return _console(stderr=True)


def below_the_log() -> "Console":
    """For what changes in place. Lines of the log above it stay in one piece, so that a path in them can be copied."""
    console = messages()
    console.soft_wrap = True
    return console


def _console(*, stderr: bool) -> "Console":
    from holdfast.cli.terminal import SafeConsole

    console = SafeConsole(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if (_WIDE.get() and not stderr) or (not console.is_terminal and "COLUMNS" not in os.environ):
        console.width = _PIPE_WIDTH
    return console


def print_table(table: "Table") -> None:
    console = answer()
    if console.is_terminal and not _WIDE.get():
        console.print(table)
        return
    with console.capture() as capture:
        console.print(table)
    sys.stdout.writelines(line.rstrip() + "\n" for line in capture.get().splitlines())


def plain_table(*headings: str) -> "Table":
    """Aligned columns without lines."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def labelled(label: str, *parts: "str | Text | tuple[str, str]") -> "Text":
    """One line of a summary: a dim label in a column of its own, then the parts."""
    from rich.text import Text

    return Text.assemble("  ", (f"{label:<{_LABEL_WIDTH}}", "dim"), *parts)


def print_message(message: str) -> None:
    """A message for the user, never on standard output."""
    print(shown(message), file=sys.stderr)  # noqa: T201


@contextmanager
def standard_output_kept_clean() -> Iterator[None]:
    """Everything that this process or the JVM prints in this block goes to standard error.

    Done on the file descriptor, because the JVM inherits that and not Python's objects.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
