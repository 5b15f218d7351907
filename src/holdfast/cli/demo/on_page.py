"""The demo on its page: the act, what both sides have right and wrong, and the newest lines. The threads that serve the
page read `board` while the demo replaces it."""

from collections.abc import Sequence
from dataclasses import replace

from holdfast.cli.dashboard.board import Board, Line
from holdfast.cli.demo.narrating import Said
from holdfast.cli.demo.score import Side

_LINES = 40
_HEADS = ("side", "does", "batch", "rows expected", "in its table", "wrong", "lost", "doubled")


class OnPage:
    def __init__(self) -> None:
        self.board: Board | None = None
        """None before the first act."""

    def act(self, title: str, why: str) -> None:
        known = self.board or Board(title, why)
        self.board = replace(known, title=title, about=why)

    def say(self, clock: str, mark: str, said: Said) -> None:
        if self.board is not None:
            line = Line(clock, said.text, mark, bad=said.tone == "bad")
            self.board = replace(self.board, lines=(line, *self.board.lines)[:_LINES])

    def keep_score(self, sides: Sequence[Side]) -> None:
        if self.board is not None:
            rows = tuple(map(_row, sides))
            bad = frozenset(n for n, side in enumerate(sides) if side.state == "dead" or not side.score.exact)
            self.board = replace(self.board, heads=_HEADS, rows=rows, bad=bad)

    def summary(self, outcomes: Sequence[tuple[bool, str, str]]) -> None:
        held = all(held for held, _, _ in outcomes)
        lines = [Line("", f"{what}: {result}", "✓" if ok else "✗", bad=not ok) for ok, what, result in outcomes]
        known = self.board or Board("", "")
        verdict = "everything held" if held else "something did not hold"
        self.board = replace(known, title=f"Demo: {verdict}", about="", lines=(*lines, *known.lines)[:_LINES])


def _row(side: Side) -> tuple[str | int, ...]:
    score = side.score
    batch = side.batch if side.batch >= 0 else "-"
    return (side.name, side.state, batch, score.expected, score.present, score.wrong, score.lost, score.doubled)
