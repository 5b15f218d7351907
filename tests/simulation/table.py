"""A simulated table, durable and shared by all runs; and everything that others may do to it, rightly or not."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field

from holdfast.identifiers import BatchId

_KEPT = 12
_CONTENT = (
    "id", "version", "epoch", "life", "claim", "published", "visible", "record", "made_by", "deleted", "compacted",
    "foreign", "holes", "restored",
)  # fmt: skip
"""What a copy of its files holds."""


@dataclass
class Table:
    id: int = 1
    """Of a table that stands in its place, another one."""
    version: int = 0
    epoch: int = 0
    life: int | None = None
    claim: int | None = None
    published: BatchId | None = None
    visible: list[tuple[BatchId, tuple[int, ...]]] = field(default_factory=list)
    record: dict[BatchId, tuple[int, ...]] = field(default_factory=dict)
    """What each published batch made visible, as our own record at the place says."""
    made_by: dict[BatchId, int] = field(default_factory=dict)
    """The run that staged each published batch, by the same record."""
    staged: dict[str, tuple[int, ...]] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    """Rows that others took out on purpose; the table's log says so."""
    compacted: BatchId | None = None
    """Up to here, files hold rows of several batches."""
    foreign: int = 0
    """Rows that are not ours."""
    restored: bool = False
    """The table's log has a RESTORE that nobody has accepted."""

    # What the simulation knows besides.
    holes: set[int] = field(default_factory=set)
    """Rows that were lost by an incident, which a person accepted."""
    high: int = 0
    """So many rows of this life were visible at most."""
    commits: int = 0
    """Of ours that changed what readers see."""
    versions: list[Table] = field(default_factory=list)
    copies: list[Table] = field(default_factory=list)
    keeps_versions: bool = False

    def rows(self) -> list[int]:
        return [row for _, rows in self.visible for row in rows]

    @property
    def is_touched(self) -> bool:
        """Others have changed rows of ours, which they may: they may be in the way of a rewind."""
        return bool(self.deleted) or self.compacted is not None

    def rows_after(self, upto: BatchId | None) -> set[int]:
        """Those that our own record says batches after `upto` made visible."""
        return {row for batch, rows in self.record.items() if upto is None or batch > upto for row in rows}

    def obstacle(self, upto: BatchId | None) -> str | None:
        """What others did to rows that are to be taken back, and that is in the way of it."""
        rows = self.rows_after(upto)
        behind = any(upto is None or batch > upto for batch in self.record)
        if behind and self.compacted is not None and self.compacted > (-1 if upto is None else upto):
            return f"somebody has compacted what batches up to {self.compacted} wrote"
        if rows & self.deleted:
            return f"somebody has deleted rows {sorted(rows & self.deleted)[:3]} of these batches"
        return None

    def committed(self) -> None:
        self.version += 1
        self.high = max(self.high, max(self.rows(), default=-1) + 1)
        if self.keeps_versions:
            self.versions = [*self.versions[-_KEPT:], self.copy()]

    def copy(self) -> Table:
        taken = copy(self)
        taken.visible, taken.record, taken.staged = list(self.visible), dict(self.record), dict(self.staged)
        taken.deleted, taken.holes, taken.made_by = set(self.deleted), set(self.holes), dict(self.made_by)
        taken.versions, taken.copies = [], []
        return taken

    def back_up(self) -> None:
        self.copies = [*self.copies[-_KEPT:], self.copy()]

    def begin_life(self) -> None:
        """Rows of an earlier life stay, and are nobody's any more."""
        self.foreign += len(self.rows())
        self.visible, self.record, self.published, self.compacted = [], {}, None, None
        self.deleted, self.holes, self.high = set(), set(), 0

    def accept(self) -> None:
        """A person says that it is meant to be what it is."""
        self.restored = False
        self.foreign += sum(len(rows) for batch, rows in self.visible if batch not in self.record)
        self.visible = [(batch, rows) for batch, rows in self.visible if batch in self.record]
        there = set(self.rows()) | self.deleted
        self.holes = (self.holes | set(range(self.high))) - there
        self.record = {batch: tuple(row for row in rows if row in there) for batch, rows in self.record.items()}

    def disown(self, end: int) -> None:
        """A person goes on from row `end`, although there are more: those stay, stand there twice later on, and are
        nobody's."""
        self.foreign += sum(row >= end for row in self.rows())
        self.visible = [(batch, tuple(row for row in rows if row < end)) for batch, rows in self.visible]
        self.record = {batch: tuple(row for row in rows if row < end) for batch, rows in self.record.items()}

    # --- by others ---

    def restore(self, older: Table) -> None:
        """As `RESTORE TABLE` does: a new version with the rows of an older one. Ids and our own record stay."""
        self.visible, self.deleted, self.compacted = list(older.visible), set(older.deleted), older.compacted
        self.holes, self.restored = set(older.holes), True
        self.version += 1

    def roll_back(self, older: Table) -> None:
        """Its files as they were then; what is staged lies beside it and stays."""
        then = older.copy()
        for name in _CONTENT:
            setattr(self, name, getattr(then, name))

    def empty(self) -> None:
        """Deleted as a whole, with what is staged in it; whoever writes next makes a new one."""
        self.roll_back(Table(id=self.id + 1))
        self.staged = {}

    def replace(self) -> None:
        self.roll_back(Table(id=self.id + 1, version=3, foreign=7))

    def compact(self) -> None:
        self.compacted = self.published
        self.version += 1

    def delete(self, rows: set[int]) -> None:
        self.deleted |= rows
        self.visible = [(batch, tuple(row for row in kept if row not in rows)) for batch, kept in self.visible]
        self.version += 1

    def append_foreign(self) -> None:
        self.foreign += 1
        self.version += 1


@dataclass
class OwnTable:
    """What a writer of the user's own writes to. It takes each batch id once, as Spark's own sinks do."""

    rows: set[int] = field(default_factory=set)
    newest: BatchId | None = None
    appends: bool = False
    """Its owner has made it take what comes, under whatever id."""

    def skips(self, batch: BatchId) -> bool:
        return not self.appends and self.newest is not None and batch <= self.newest

    def write(self, batch: BatchId, rows: tuple[int, ...]) -> None:
        if not self.skips(batch):
            self.rows.update(rows)
            self.newest = max(batch, self.newest or batch)
