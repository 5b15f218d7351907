"""What a user can do when batches that his writer may have cannot be repeated as they were. Pure."""

from __future__ import annotations

from holdfast.identifiers import BatchId, CheckpointId
from holdfast.repository.state import JobState
from holdfast.runtime.own_writer import Taken

_ANOTHER_JOB = "begin anew under another job name, with an empty place for its output"


def ways_out(state: JobState, taken: Taken, barrier: BatchId | None, host: str) -> str:
    """`barrier`: where the job would resume. `host`: where this run is."""
    ways = [*_where_the_plans_are(state, host), *_without_the_plans(state, taken, barrier)]
    return "; or ".join(ways or [_ANOTHER_JOB])


def _where_the_plans_are(state: JobState, host: str) -> list[str]:
    left = state.previous_run
    if left is None or left.host == host:
        return []
    return [f"start it on {left.host}, where run {left.fencing_epoch} left its work directory, {left.work}"]


def _without_the_plans(state: JobState, taken: Taken, barrier: BatchId | None) -> list[str]:
    """Going back begins a new line of batches, so that what was planned behind the gap binds nobody."""
    back = _can_go_back_to(state, barrier)
    if back is None or barrier is None:
        return []
    if taken.rewinds:
        return [f"take back what it shows after batch {barrier}: --from-checkpoint {back}"]
    if taken.always_skips:
        return [f"take out of it what it got after batch {barrier}, and add --from-checkpoint {back}"]
    return [
        f"if it accepts batch ids that it has seen, and rows after batch {barrier} may come again: "
        f"--from-checkpoint {back} --repeats accept"
    ]


def _can_go_back_to(state: JobState, barrier: BatchId | None) -> CheckpointId | None:
    """The newest checkpoint that a start can be asked to go back to: what was done once is not done again."""
    done = None if state.went_back is None else state.went_back.asked
    ids = (entry.id for entry in state.restorable() if barrier is not None and entry.barrier_batch_id <= barrier)
    return next((id for id in ids if done != f"checkpoint {id}"), None)
