"""The state of a job, computed from the journal's entries. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import msgspec

from holdfast.identifiers import CheckpointId, FencingEpoch, Sequence
from holdfast.repository.entries import (
    ROLLBACK,
    AnyEntry,
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointFailedEntry,
    CheckpointRepaired,
    CheckpointsRetired,
    CheckpointStarted,
    JournalFolded,
    PlansLate,
    QueryRestarted,
    RequestAnswered,
    Retention,
    RollbackRequested,
    RunEnded,
    RunStarted,
    SavepointDeleted,
    SavepointNamed,
    WentBack,
)

_NO_ENTRY = Sequence(0)
_NO_CHECKPOINT = CheckpointId(0)


@dataclass
class JobState:
    """Immutable once returned: each further entry gives a new state. So any thread may read it."""

    head: Sequence = _NO_ENTRY
    head_at: datetime | None = None
    runs: list[RunStarted] = field(default_factory=list)
    """Every valid claim, oldest first."""
    ends: dict[FencingEpoch, RunEnded] = field(default_factory=dict)
    last_checkpoint: CheckpointId = _NO_CHECKPOINT
    """The highest id ever taken."""
    started: dict[CheckpointId, CheckpointStarted] = field(default_factory=dict)
    completed: dict[CheckpointId, CheckpointCompleted] = field(default_factory=dict)
    failed: list[CheckpointFailedEntry] = field(default_factory=list)
    retired_at: dict[CheckpointId, datetime] = field(default_factory=dict)
    corrupt: dict[CheckpointId, CheckpointCorrupt] = field(default_factory=dict)
    abandoned: set[CheckpointId] = field(default_factory=set)
    """Checkpoints of abandoned timelines, because of damage or on request."""
    rollback: RollbackRequested | None = None
    """The request that the next start goes back on; None when there is none."""
    went_back: WentBack | None = None
    """The last time that the job went back on request."""
    went_back_for_a_start: WentBack | None = None
    """The same, not counting requests of `holdfast rollback`."""
    returned: CheckpointRepaired | None = None
    """The last time that a passed-over checkpoint became usable again."""
    answers: dict[str, RequestAnswered] = field(default_factory=dict)
    """To requests, by their ids."""
    restarts: list[QueryRestarted] = field(default_factory=list)
    plans_late: PlansLate | None = None
    """The last time that batches went on without durable plans."""
    folded: JournalFolded | None = None
    """The newest fold: entries up to its `upto` are not separate objects any more."""
    sequences: list[tuple[Sequence, AnyEntry]] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[AnyEntry]) -> JobState:
        state = cls()
        for entry in entries:
            state._take(entry)
        return state

    def after(self, entry: AnyEntry) -> JobState:
        state = replace(self, **{item.name: _apart(getattr(self, item.name)) for item in fields(self)})
        state._take(entry)
        return state

    def _take(self, entry: AnyEntry) -> None:  # noqa: C901  a few lines per entry
        assert entry.sequence > self.head, "entries are applied in the order of the journal"
        self.head = entry.sequence
        self.head_at = entry.at
        self.sequences.append((entry.sequence, entry))
        if entry.fencing_epoch < self.fencing_epoch:
            # Only the owner appends. So the newer claims are in places that a version without folds had trimmed, and
            # were never valid.
            self.runs = [run for run in self.runs if run.fencing_epoch <= entry.fencing_epoch]
        match entry:
            case RunStarted():
                self.runs.append(entry)
                self.head = Sequence(max(self.head, (entry.next_sequence or 0) - 1))
            case RunEnded():
                self.ends[entry.fencing_epoch] = entry
            case CheckpointStarted():
                self.started[entry.id] = entry
                self.last_checkpoint = max(self.last_checkpoint, entry.id)
            case CheckpointCompleted():
                self.completed[entry.id] = entry
                self.last_checkpoint = max(self.last_checkpoint, entry.id)
            case CheckpointFailedEntry():
                self.failed.append(entry)
            case CheckpointsRetired():
                self.retired_at.update(dict.fromkeys(entry.ids, entry.at))
            case CheckpointCorrupt():
                if entry.id not in self.passed_over:
                    self.corrupt[entry.id] = entry
                if entry.passed_over:
                    self.abandoned.add(entry.id)
            case CheckpointRepaired():
                if entry.returns:
                    self.abandoned.discard(entry.id)
                    self.returned = entry
                if entry.returns or entry.id not in self.passed_over:
                    self.corrupt.pop(entry.id, None)
            case WentBack():
                self.abandoned.update(entry.abandoned)
                self.went_back = entry
                if not entry.asked.startswith(ROLLBACK):
                    self.went_back_for_a_start = entry
                if self.run is None or self.run.purpose == "pipeline":  # not brought by `holdfast copy`
                    self.rollback = None
            case RollbackRequested():
                self.rollback = None if entry.chosen is None else entry
            case SavepointNamed():
                self._rename(entry.id, entry.name)
            case SavepointDeleted():
                self._rename(entry.id, None)
            case RequestAnswered():
                self.answers[entry.request] = entry
            case QueryRestarted():
                self.restarts.append(entry)
            case PlansLate():
                self.plans_late = entry
            case JournalFolded():
                self.folded = entry

    def _rename(self, id: CheckpointId, name: str | None) -> None:
        """`completed` holds the current name of the checkpoint, not the one it was taken with."""
        if id in self.completed:
            kind = "savepoint" if name else "checkpoint"
            self.completed[id] = msgspec.structs.replace(self.completed[id], checkpoint_kind=kind, name=name)

    def without(self, dropped: frozenset[Sequence]) -> JobState:
        """The same state after a fold dropped these entries, so that a long run does not keep them in memory."""
        return JobState.of(entry for sequence, entry in self.sequences if sequence not in dropped)

    def is_void(self, request: str, seen: Sequence) -> bool:
        """Whether a request, whose requester had read the journal up to `seen`, may have an answer that was dropped
        since."""
        lost = self.folded.answers_lost_upto if self.folded else _NO_ENTRY
        return request not in self.answers and seen < lost

    @property
    def run(self) -> RunStarted | None:
        """The newest run, of the pipeline or of maintenance."""
        return self.runs[-1] if self.runs else None

    @property
    def ended(self) -> RunEnded | None:
        """How the newest run ended, None while it has not recorded its end."""
        return self.ends.get(self.fencing_epoch)

    @property
    def pipeline(self) -> RunStarted | None:
        """The newest run of the pipeline."""
        return next((run for run in reversed(self.runs) if run.purpose == "pipeline"), None)

    @property
    def pipeline_ended(self) -> RunEnded | None:
        return self.ends.get(self.pipeline.fencing_epoch) if self.pipeline else None

    @property
    def retention(self) -> Retention | None:
        """The newest recorded retention: of the pipeline, or of the source of a copy."""
        return next((run.retention for run in reversed(self.runs) if run.retention is not None), None)

    @property
    def lineage(self) -> str | None:
        return self.run.lineage if self.run else None

    @property
    def fencing_epoch(self) -> FencingEpoch:
        return self.run.fencing_epoch if self.run else FencingEpoch(0)

    @property
    def previous_run(self) -> RunStarted | None:
        """The pipeline's run before the current one.

        Maintenance in between does not count: it runs no batches, touches no work directory and opens no sink, so the
        directory of this run still ends its timeline. A start that failed before it touched any of that does not count
        either.
        """
        return self.last_to_leave_batches(self.runs[:-1])

    def last_to_leave_batches(self, runs: list[RunStarted]) -> RunStarted | None:
        return next((run for run in reversed(runs) if self._may_have_left_batches(run)), None)

    def _may_have_left_batches(self, run: RunStarted) -> bool:
        end = self.ends.get(run.fencing_epoch)
        return run.purpose == "pipeline" and not (end is not None and end.untouched)

    @property
    def passed_over(self) -> frozenset[CheckpointId]:
        """Damaged ones whose timeline was abandoned."""
        return frozenset(id for id, entry in self.corrupt.items() if entry.passed_over)

    def newest_of_the_line(self) -> CheckpointCompleted | None:
        """The newest checkpoint of the job's current timeline, damaged or not."""
        return next((entry for entry in reversed(self.retained()) if entry.id not in self.abandoned), None)

    def is_rescaled_since(self, run: RunStarted) -> bool:
        """What that run left has the number of partitions that the job had before."""
        newest = self.newest_of_the_line()
        return newest is not None and newest.rescaled is not None and newest.sequence > run.sequence

    @property
    def retired(self) -> AbstractSet[CheckpointId]:
        return self.retired_at.keys()

    def restorable(self) -> list[CheckpointCompleted]:
        """What a recovery may choose, newest first."""
        return [
            entry
            for id, entry in sorted(self.completed.items(), reverse=True)
            if id not in self.retired and id not in self.corrupt and id not in self.abandoned
        ]

    def savepoint(self, name: str) -> CheckpointCompleted | None:
        return next((entry for entry in self.retained() if entry.name == name), None)

    def retained(self) -> list[CheckpointCompleted]:
        """What must not be deleted: everything completed and not retired, damaged ones included."""
        return [entry for id, entry in sorted(self.completed.items()) if id not in self.retired]


def _apart(held: Any) -> Any:
    """Copies the container only. The entries stay the same objects: they are compared by identity."""
    return copy(held) if isinstance(held, list | dict | set) else held
