"""What a user can do when batches that his writer may have cannot be repeated as they were. Pure."""

from __future__ import annotations

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, CheckpointId, JobName
from holdfast.repository.state import JobState
from holdfast.runtime.own_writer import Taken

_ANOTHER_JOB = "begin anew under another job name, with an empty place for its output"


def ways_out(state: JobState, taken: Taken, barrier: BatchId | None, host: str, *, older_home: bool = False) -> str:
    """`barrier`: where the job would resume. `host`: where this run is. `older_home`: the user has accepted that the
    home is older than what it is compared with, and must do so again."""
    ways = [*_where_the_plans_are(state, host), *_without_the_plans(state, taken, barrier, older_home)]
    return "; or ".join(ways or [_ANOTHER_JOB])


def broken_plans(
    job: JobName,
    state: JobState,
    taken: Taken,
    broken: str,
    barrier: BatchId | None,
    host: str,
    *,
    older_home: bool = False,
) -> Conflict:
    ways = ways_out(state, taken, barrier, host, older_home=older_home)
    return Conflict(
        f"could not start job {job!r}: {broken}; {taken.writer} may have that batch, and it cannot be "
        "repeated as it was: its rows would be lost, or come twice",
        hint=f"put the plan back from a copy of the home; or {ways}",
    )


def two_ids(
    job: JobName,
    state: JobState,
    taken: Taken,
    other: BatchId,
    barrier: BatchId | None,
    host: str,
    *,
    older_home: bool = False,
) -> Conflict:
    """`other` is the first batch of another line than those before it."""
    ways = ways_out(state, taken, barrier, host, older_home=older_home)
    return Conflict(
        f"could not start job {job!r}: the job went back to a checkpoint after batch {other - 1}, which is damaged, so "
        f"the batches from {other} on cannot be repeated: {taken.writer} knows them by another id of the query than "
        "those before, and would write them twice",
        hint=f"put that checkpoint back from a copy of the home: holdfast verify names what is damaged; or {ways}",
    )


def _where_the_plans_are(state: JobState, host: str) -> list[str]:
    left = state.previous_run
    if left is None or left.host == host or not left.work:
        return []
    return [f"start it on {left.host}, where run {left.fencing_epoch} left its work directory, {left.work}"]


def _without_the_plans(state: JobState, taken: Taken, barrier: BatchId | None, older_home: bool) -> list[str]:
    """Going back begins a new line of batches, for which the plans after the gap do not count."""
    back = _can_go_back_to(state, barrier)
    if back is None or barrier is None:
        return []
    go_back = f"--from-checkpoint {back}{' --accept-older-home' if older_home else ''}"
    if taken.rewinds:
        return [f"take back what it shows after batch {barrier}: {go_back}"]
    if taken.always_skips:
        return [f"take out of it what it got after batch {barrier}, and add {go_back}"]
    return [
        f"if it accepts batch ids that it has seen, and rows after batch {barrier} may come again: "
        f"{go_back} --repeats accept"
    ]


def _can_go_back_to(state: JobState, barrier: BatchId | None) -> CheckpointId | None:
    """The newest checkpoint that a start can be asked to go back to: what was done once is not done again."""
    done = None if state.went_back_for_a_start is None else state.went_back_for_a_start.asked
    ids = (entry.id for entry in state.restorable() if barrier is not None and entry.barrier_batch_id <= barrier)
    return next((id for id in ids if done != f"checkpoint {id}"), None)
