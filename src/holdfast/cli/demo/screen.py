"""The demo's output: lines that stay, and below them, on a terminal, a panel that changes, with both sides."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.cli import figures
from holdfast.cli.dashboard.board import Board
from holdfast.cli.demo.narrating import Said
from holdfast.cli.demo.on_page import OnPage
from holdfast.cli.demo.picture import Picture
from holdfast.cli.demo.score import Score, Side
from holdfast.cli.output import answer, labelled

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_PLAIN_WIDTH = 110
_MARKS = {"plain": "·", "good": "✓", "bad": "✗", "action": "$", "beside": "│"}
_STYLES = {"plain": "", "good": "", "bad": "red", "action": "bold", "beside": "magenta"}
_MARK_STYLES = {**_STYLES, "plain": "dim", "good": "green", "action": "cyan"}
_RECENT = 32
_COLUMN = 36


class Screen:
    def __init__(self, now: Callable[[], float]) -> None:
        from rich.live import Live

        self._console = answer()
        self._on_page = OnPage()
        self._now = now
        self._began = now()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        if not self._console.is_terminal:
            self._console.width = _PLAIN_WIDTH

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def print_event(self, line: Said) -> None:
        """A line with the time since the beginning. A long line is wrapped with a hanging indent."""
        self._on_page.say(self._clock(), _MARKS[line.tone], line)
        from rich.table import Table
        from rich.text import Text

        row = Table.grid(padding=(0, 1, 0, 0))
        row.add_column(width=5, style="dim")
        row.add_column(width=1, style=_MARK_STYLES[line.tone])
        row.add_column(overflow="fold")
        row.add_row(self._clock(), _MARKS[line.tone], Text(line.text, _STYLES[line.tone]))
        self._print(row)

    def board(self) -> Board | None:
        """What is on the screen, for the page."""
        return self._on_page.board

    def title(self, words: str, places: Mapping[str, Path]) -> None:
        from rich.text import Text

        self._print(Text(words, "bold"))
        for label, path in places.items():
            self._print(labelled(label, str(path)), whole=True)

    def act(self, number: int, title: str, why: str) -> None:
        from rich.text import Text

        self._on_page.act(f"Demo, act {number}: {title}", why)
        self._print(Text(""))
        self._print(Text.assemble((f"{number}  {title}", "bold"), (f" · {why}", "dim")))

    def code(self, lines: Iterable[str]) -> None:
        from rich.text import Text

        for line in lines:
            self._print(Text(f"        {line}", "cyan"))

    def summary(self, rows: list[tuple[bool, str, str]]) -> None:
        from rich.table import Table
        from rich.text import Text

        self._on_page.summary(rows)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=1)
        table.add_column()
        table.add_column(overflow="fold")
        for held, what, result in rows:
            mark = Text("✓", "green") if held else Text("✗", "bold red")
            table.add_row(mark, what, Text(result, "" if held else "red"))
        self._print(Text(""))
        self._print(table)
        self._print(Text(""))

    def print_line(self, words: str, style: str = "") -> None:
        from rich.text import Text

        self._print(Text(words, style))

    def print_unwrapped(self, words: str) -> None:
        """A line to copy: never wrapped, however narrow the terminal."""
        from rich.text import Text

        self._print(Text(words), whole=True)

    def draw(self, picture: Picture, sides: Sequence[Side]) -> None:
        self._on_page.keep_score(sides)
        if self._console.is_terminal:
            from rich.console import Group

            panel = _panel(picture, self._console.width)
            self._live.update(Group(panel[0], *_split(sides), *panel[1:]), refresh=True)

    def _clock(self) -> str:
        seconds = int(self._now() - self._began)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def _print(self, what: "RenderableType", *, whole: bool = False) -> None:
        if self._console.is_terminal:
            self._console.print(what, soft_wrap=whole)
            return
        with self._console.capture() as capture:
            self._console.print(what, soft_wrap=whole)
        sys.stdout.writelines(line.rstrip() + "\n" for line in capture.get().splitlines() or [""])
        sys.stdout.flush()


def _split(sides: Sequence[Side]) -> "Iterator[Text]":
    """What readers see on both sides: the same words at the same height."""
    from rich.text import Text

    rows = [[(f"{side.name:<{_COLUMN}}", "bold") for side in sides]]
    rows += [[(f"{_state(side):<{_COLUMN}}", "red" if side.state == "dead" else "") for side in sides]]
    rows += [[(f"{_counts(side.score):<{_COLUMN}}", "") for side in sides]]
    rows += [[(f"{_mistakes(side.score):<{_COLUMN}}", _colour(side.score)) for side in sides]]
    for row in rows:
        yield Text.assemble(*((text[:_COLUMN] + "  ", style) for text, style in row))


def _state(side: Side) -> str:
    return f"batch {side.batch}, {side.state}" if side.batch >= 0 else side.state


def _counts(score: Score) -> str:
    return f"expected {score.expected:>5}   in table {score.present:>5}"


def _mistakes(score: Score) -> str:
    return f"wrong {score.wrong:>3}   lost {score.lost:>3}   doubled {score.doubled:>3}"


def _colour(score: Score) -> str:
    return "green" if score.exact else "bold red"


def _panel(picture: Picture, width: int) -> "list[Text]":
    from rich.text import Text

    home = ("reachable", "green") if picture.home_reachable else ("unreachable, no checkpoint can complete", "bold red")
    lines = [
        Text("─" * min(width, 78), style="dim"),
        labelled("batches", (f"{_bars(picture):<{_RECENT}}", "cyan"), f"  {_batches(picture)}"),
        labelled("checkpoints", *_marks(picture.outcomes[-_RECENT:]), f"  {_checkpoints(picture)}"),
        labelled("home", home),
    ]
    for line in lines:
        line.truncate(width)
    return lines


def _bars(picture: Picture) -> str:
    """Durations of the last batches, without the first of a run, which takes many times as long."""
    recent = [round(batch.seconds * 1000) for batch in picture.batches[-_RECENT:]]
    tallest = 2 * sorted(recent)[len(recent) // 2] if recent else 0
    return figures.spark_line([min(value, tallest) for value in recent])


def _marks(outcomes: str) -> list[tuple[str, str]]:
    marks = [(mark, "green" if mark == "✓" else "red") for mark in outcomes]
    return [*marks, (" " * (_RECENT - len(outcomes)), "")]


def _batches(picture: Picture) -> str:
    if not picture.batches:
        return "none yet"
    last = picture.batches[-1]
    return f"batch {last.id}, {figures.duration(last.seconds * 1000)}"


def _checkpoints(picture: Picture) -> str:
    newest = picture.newest
    return f"{newest.id} at batch {newest.barrier_batch_id}" if newest else "none yet"
