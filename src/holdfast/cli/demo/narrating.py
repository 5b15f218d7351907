"""Turns observations into lines of output: one per checkpoint, failure and other event."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from holdfast.cli import figures
from holdfast.cli.demo.picture import FAILED, is_failed_checkpoint
from holdfast.cli.demo.places import Places
from holdfast.cli.demo.watching import BatchCommitted, EntryAppended, LogLine, Sight, TableChanged
from holdfast.repository.entries import AnyEntry, CheckpointCompleted, RunEnded, RunStarted

Tone = Literal["plain", "good", "bad", "action", "beside"]

_HELD_FOR = 4
"""How many polls to wait for the output of a checkpoint, which is published right after its journal entry."""


@dataclass(frozen=True)
class Said:
    text: str
    tone: Tone = "plain"


class Narrator:
    def __init__(self, places: Places) -> None:
        self._places = places
        self._rows = 0
        self._rows_reported = 0
        self._first_batch: int | None = None
        self._last_batch = -1
        self._new_run = False
        self._explained: set[str] = set()
        self._held: CheckpointCompleted | None = None
        """A completed checkpoint, printed together with the rows that it published."""
        self._held_for = 0

    def narrate(self, sight: Sight) -> Iterator[Said]:
        match sight:
            case TableChanged(rows=rows):
                self._rows = rows
                yield from self.let_go()
            case BatchCommitted():
                yield from self._batch(sight)
            case EntryAppended(entry=entry):
                yield from self.let_go()
                yield from self._entry(entry)
            case LogLine():
                yield from self._log_line(sight)

    def turn_ends(self) -> Iterator[Said]:
        """Call it after every poll: no line is held back for more than a few polls."""
        self._held_for += 1
        if self._rows != self._rows_reported or self._held_for > _HELD_FOR:
            yield from self.let_go()

    def let_go(self) -> Iterator[Said]:
        """Print what was held back: it will not become more complete."""
        if (entry := self._held) is not None:
            self._held = None
            yield self._checkpoint(entry)

    def _batch(self, batch: BatchCommitted) -> Iterator[Said]:
        self._first_batch = batch.id if self._first_batch is None else self._first_batch
        self._last_batch = batch.id
        if self._new_run:
            self._new_run = False
            yield Said(f"batch {batch.id} is the run's first, {figures.duration(batch.seconds * 1000)}")

    def _entry(self, entry: AnyEntry) -> Iterator[Said]:
        match entry:
            case RunStarted():
                self._first_batch, self._new_run = None, True
                yield Said(f"run {entry.fencing_epoch} owns the job: pid {entry.pid} on {entry.host}")
            case CheckpointCompleted():
                self._held, self._held_for = entry, 0
            case RunEnded():
                yield Said(f"run {entry.fencing_epoch} ended: {entry.reason}")

    def _checkpoint(self, entry: CheckpointCompleted) -> Said:
        more, self._rows_reported = self._rows - self._rows_reported, self._rows
        added = f" (+{more})" if more > 0 else ""
        return Said(
            f"checkpoint {entry.id:<3} {self._batches(entry):<13}{figures.duration(entry.duration_ms):>6}  "
            f"{figures.size(entry.bytes_new):>7} new  table {self._rows} rows{added}",
            "good",
        )

    def _batches(self, entry: CheckpointCompleted) -> str:
        first, self._first_batch = self._first_batch, None
        last = entry.barrier_batch_id
        return f"batch {last}" if first is None or first >= last else f"batch {first}-{last}"

    def _log_line(self, line: LogLine) -> Iterator[Said]:
        text = self._places.short(line.text)
        if is_failed_checkpoint(line):
            yield from self.let_go()
            yield from self._failed(text)
        elif line.text.startswith(("resuming at", "alarm ")):
            yield Said(text)
        elif line.level in ("ERROR", "CRITICAL") or line.text.startswith(("the query died", "the restart failed")):
            yield Said(text, "bad")

    def _failed(self, text: str) -> Iterator[Said]:
        """The full reason the first time, the pipeline's progress every time."""
        what, _, why = text.partition(FAILED)
        reason = why.partition(":")[0]
        shown = why if reason not in self._explained else reason
        self._explained.add(reason)
        yield Said(f"{what} failed: {shown}; the pipeline keeps running: batch {self._last_batch}", "bad")
