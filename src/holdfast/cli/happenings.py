"""What happened to a job, in order: each entry of its journal as one line for people. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from holdfast.cli import figures
from holdfast.repository.entries import (
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
    Rescaled,
    RollbackRequested,
    RunEnded,
    RunStarted,
    SavepointDeleted,
    SavepointNamed,
    WentBack,
)
from holdfast.repository.state import JobState
from holdfast.showing import shown


@dataclass(frozen=True)
class Happening:
    sequence: int
    at: datetime
    kind: str
    """That of the entry."""
    text: str
    bad: bool = False

    def document(self) -> dict[str, Any]:
        at = self.at.astimezone(UTC)
        return {"sequence": self.sequence, "at": at, "kind": self.kind, "text": self.text, "bad": self.bad}


def happenings(state: JobState) -> list[Happening]:
    """Oldest first."""
    return [_happening(entry) for _, entry in state.sequences]


def _happening(entry: AnyEntry) -> Happening:
    kind = type(entry).__struct_config__.tag
    return Happening(entry.sequence, entry.at, str(kind), shown(_text(entry)), _is_bad(entry))


def _is_bad(entry: AnyEntry) -> bool:
    match entry:
        case CheckpointFailedEntry() | CheckpointCorrupt() | QueryRestarted() | PlansLate():
            return True
        case RunEnded(failed=failed):
            return failed
    return False


def _text(entry: AnyEntry) -> str:  # noqa: C901  one line per kind
    match entry:
        case RunStarted(purpose=purpose):
            what = "run" if purpose == "pipeline" else "command"
            beside = f", and protects {entry.protects}" if entry.protects else ""
            return f"{what} {entry.fencing_epoch} claimed the job on {entry.host}, pid {entry.pid}{beside}"
        case RunEnded(reason=reason):
            return f"run {entry.fencing_epoch} ended: {reason}"
        case PlansLate(first=first, last=last):
            return f"plans of batches {first} to {last} are durable now: the batches had not waited for them"
        case CheckpointStarted(id=id, barrier_batch_id=batch):
            return f"checkpoint {id} began at batch {batch}"
        case CheckpointCompleted():
            took, new = figures.duration(entry.duration_ms), figures.size(entry.bytes_new)
            told = f"checkpoint {entry.id} completed at batch {entry.barrier_batch_id} in {took}, {new} new"
            return told if (made := entry.rescaled) is None else f"{told}: {_of_rescaled(made)}"
        case CheckpointFailedEntry(id=id, failure=failure):
            which = "a checkpoint" if id is None else f"checkpoint {id}"
            return f"{which} failed: {failure.reason}: {failure.message}"
        case CheckpointsRetired(ids=ids):
            return f"{figures.counted(len(ids), 'checkpoint')} retired: {', '.join(map(str, ids[:10]))}"
        case CheckpointCorrupt(id=id, detail=detail):
            return f"checkpoint {id} is damaged: {detail}"
        case CheckpointRepaired(id=id, detail=detail):
            return f"checkpoint {id} is repaired: {detail}"
        case WentBack(asked=asked, chosen=chosen):
            return f"the job went back to checkpoint {chosen} ({asked})"
        case RollbackRequested(chosen=None):
            return "the rollback was cancelled"
        case RollbackRequested(chosen=chosen):
            return f"a command took the job back: its next start goes back to checkpoint {chosen}"
        case SavepointNamed(id=id, name=name):
            return f"checkpoint {id} is now the savepoint {name}"
        case SavepointDeleted(id=id, name=name):
            return f"the savepoint {name} (checkpoint {id}) is an ordinary checkpoint again"
        case RequestAnswered(message=message):
            return f"a request was answered {message}".rstrip()
        case QueryRestarted(attempt_number=number, cause=cause, message=message):
            return f"the query died ({cause}), restart {number}: {message}"
        case JournalFolded(upto=upto):
            return f"the journal was folded up to entry {upto}"


def _of_rescaled(made: Rescaled) -> str:
    return f"checkpoint {made.checkpoint} with {made.before} → {made.after} state partitions"
