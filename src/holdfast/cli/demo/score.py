"""What readers of a table see, beside what they should see."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from holdfast.cli.demo.batch_answer import Row


@dataclass(frozen=True)
class Score:
    expected: int = 0
    """Rows of the answer up to the newest minute in the table."""
    present: int = 0
    wrong: int = 0
    lost: int = 0
    doubled: int = 0

    @property
    def exact(self) -> bool:
        return self.expected == self.present and not (self.wrong or self.lost or self.doubled)

    def __str__(self) -> str:
        return f"{self.present} rows, {self.wrong} wrong, {self.lost} lost, {self.doubled} doubled"


@dataclass(frozen=True)
class Side:
    """One of the two pipelines."""

    name: str
    state: str
    batch: int
    score: Score


def score(answer: Iterable[Row], table: Iterable[Row]) -> Score:
    """A query in append mode emits all shops of a minute at once. So a minute that is not reached is not lost."""
    found: defaultdict[tuple[datetime, str], list[Row]] = defaultdict(list)
    for row in table:
        found[row[:2]].append(row)
    reached = max((minute for minute, _ in found), default=None)
    wanted = {row[:2]: row for row in answer if reached is not None and row[0] <= reached}
    return Score(
        expected=len(wanted),
        present=sum(map(len, found.values())),
        wrong=sum(any(row != wanted.get(key) for row in rows) for key, rows in found.items()),
        lost=len(wanted.keys() - found.keys()),
        doubled=sum(len(rows) - 1 for rows in found.values()),
    )
