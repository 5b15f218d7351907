"""Lines of batches: within one, a batch id stands for the same rows for ever. Pure.

A job begins on line 0. A new line begins with each entry after which batches are cut anew under ids that were given
out before: the job went back, or an older checkpoint was taken and a newer one given up, or such a one came back. The
line's number is the sequence number of that entry. Each completed checkpoint says which line it is on, so that the
number outlives the entry when the journal is folded.
"""

from collections.abc import Iterable

from holdfast.checkpoint.manifest import digest_of
from holdfast.identifiers import BatchId, Sequence
from holdfast.repository.names import PLANS
from holdfast.repository.state import JobState

_LIFE_DIGITS = 8


def line_of(state: JobState) -> Sequence:
    """The line that the job is on."""
    begun = [entry.sequence for entry in state.corrupt.values() if entry.passed_over]
    begun += [entry.sequence for entry in (state.went_back, state.returned) if entry is not None]
    return max(begun + [entry.line for entry in state.completed.values()], default=Sequence(0))


def line_begins(state: JobState) -> bool:
    """The job went on to another line, and has no checkpoint on it yet."""
    line = line_of(state)
    return line > 0 and all(entry.line < line for entry in state.completed.values())


def line_folder(state: JobState) -> str:
    """Where the plans of the line are. Another life of the job, in a home that lost its journal, has others."""
    life = digest_of((state.lineage or "").encode())[:_LIFE_DIGITS]
    return f"{PLANS}{line_of(state):020d}-{life}/"


def plan_key(folder: str, batch: BatchId) -> str:
    return f"{folder}{batch:020d}"


def batch_of(key: str) -> BatchId:
    return BatchId(int(key.rpartition("/")[2]))


def oldest_start(state: JobState, retained: int) -> BatchId | None:
    """The barrier of the oldest of the `retained` newest checkpoints, from which a recovery may begin; None when it may
    begin anew."""
    newest = [entry.barrier_batch_id for entry in state.restorable()[:retained]]
    return min(newest) if len(newest) == retained else None


def needed_after(state: JobState, retained: int) -> BatchId | None:
    """Plans of the line are needed, each as an object of its own, behind this batch; None when all are.

    The newest checkpoint may hold those of the batches before it. Those behind the one before it are needed all the
    same: they are what is left when the newest one is lost with everything in it.
    """
    oldest = oldest_start(state, retained)
    if oldest is None:
        return None
    newest, *before = state.restorable()[:retained]
    if not before or newest.packed_after is None or newest.packed_after > oldest:
        return oldest
    return max(oldest, before[0].barrier_batch_id)


def unneeded_plans(keys: Iterable[str], state: JobState, retained: int) -> frozenset[str]:
    """Those of lines that were left, and of batches that no recovery repeats. A newer line is of a newer run."""
    folder, after = line_folder(state), needed_after(state, retained)
    _, _, life = folder.partition("-")

    def is_unneeded(key: str) -> bool:
        if key.startswith(folder):
            return after is not None and batch_of(key) <= after
        return key < folder and key.partition("-")[2].startswith(life)

    return frozenset(filter(is_unneeded, keys))
