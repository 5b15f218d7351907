"""What became of the stories: counted for each cell, and told."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.kills.cells import Cell, Variant


@dataclass
class Tally:
    """Of one cell."""

    kills: int = 0
    stories: int = 0
    rows: int = 0
    """That were compared, of stories that came to their end."""
    wrong: int = 0
    """Stories."""
    lost: int = 0
    doubled: int = 0
    strange: int = 0
    """Rows that nobody sent."""
    refused: int = 0
    """Starts, because rows might have been lost; each was then forced, where that is possible."""
    ended: int = 0
    """Stories in which the query could not go on."""
    repeated: int = 0
    """Starts that repeated planned batches."""
    seconds: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(**{name: value + getattr(other, name) for name, value in vars(self).items()})

    def __str__(self) -> str:
        return (
            f"{self.kills} kills in {self.stories} stories, {self.rows} rows, {self.wrong} wrong, {self.lost} lost, "
            f"{self.doubled} doubled, {self.strange} strange, {self.refused} refused, {self.ended} ended, plans "
            f"repeated in {self.repeated} lives, {self.seconds / max(self.kills, 1):.1f} s per kill"
        )


def tell(line: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stdout.flush()


def sum_up(variant: Variant, tallies: Mapping[Cell, Tally], wrong: Sequence[str]) -> None:
    for cell in sorted(tallies, key=str):
        tell(f"{variant} {cell}: {tallies[cell]}")
    tell(f"{variant}, all: {sum(tallies.values(), Tally())}")
    for line in wrong:
        tell(f"wrong: {line}")
