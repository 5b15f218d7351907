"""The user's own DataStreamWriter, and the batch ids that it has seen.

Such a writer (Spark's file sink, Spark's Delta sink, a `foreachBatch` with `txnVersion`) skips batch ids that it
already has. That is right as long as an id stands for the same rows. In the previous run's directory it does: Spark
repeats the planned batches. After a restore it does as far as the home has the plans (`runtime/plans`). After those
Spark plans batches again, and the rows of an id that the writer has seen are lost without an error. So a start is
refused when the writer has, or may have, batches that cannot be repeated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.state import JobState

NONE_YET = BatchId(-1)
Repeats = Literal["refuse", "accept"]
Warn = Callable[[str], None]


@dataclass(frozen=True)
class Taken:
    """The batches that the user's own writer has, as far as its sink reports them."""

    writer: str
    """Completes "… has batch 12 already"."""
    newest: BatchId | None
    """The newest batch id that it has; None when it has none, or when that is unknown."""
    known: bool
    """Whether its sink reports the newest batch."""
    always_skips: bool = False
    """It always skips batch ids that it has seen, so `--repeats accept` does not apply."""
    without_earlier: Literal["ignore", "warn", "refuse"] = "ignore"
    """What follows when it lacks batches that do not come again: it was put back from an older copy, emptied or
    replaced. A sink that may keep no record of a batch without rows is not refused for that."""
    rewinds: bool = False
    """It is a sink of holdfast: when the job goes back, its rows are taken back, too."""
    shows_left: bool = False
    """A new line of batches begins, under another id of the query. The sink skips none of them, and still shows batches
    of the line that is left."""
    take_back: str = ""
    """What has to be done to the sink then, as a command; "" when that is not known."""
    planned: BatchId = NONE_YET
    """The newest batch that is planned, in the directory where the job resumes or in the home. Up to there an id stands
    for the same rows as before."""


def may_have_more(
    state: JobState,
    planned: BatchId,
    *,
    local: bool,
    repeats: bool,
    claimed: bool = True,
    reported: BatchId | None = None,
) -> bool:
    """Whether, according to the journal and a heartbeat, the writer may have batches after `planned`.

    `claimed`: `state` includes the claim of the starting run. `local`: the job resumes in the previous run's directory.
    `repeats`: the start repeats the plans that the home has behind the newest checkpoint. A run that crashed recorded
    no position, but its directory shows it, or its plans do: of the batches that it ran itself, and if they are
    repeated. `reported`: the newest batch in the last heartbeat of the job. Where the plans end before it, the home has
    lost some; where the directory does, it was put back from an older copy.
    """
    if reported is not None and reported > planned:
        return True
    earlier = state.runs[:-1] if claimed else state.runs
    newest = state.newest_of_the_line()
    for run in reversed(earlier):
        end = state.ends.get(run.fencing_epoch)
        if run.purpose != "pipeline" or (end is not None and end.never_ran and end.planned is None):
            continue
        if end is not None and end.planned is not None:
            return end.planned > planned
        if local and run is state.last_to_leave_batches(earlier):
            return False
        if run.plans != "require" or not repeats:
            return True
        if newest is not None and newest.fencing_epoch >= run.fencing_epoch:
            return False  # what runs before it wrote is in the checkpoint
    own = {run.fencing_epoch for run in state.runs if run.purpose == "pipeline"}
    return any(entry.fencing_epoch not in own and not _was_at_rest(state, entry, planned) for entry in state.retained())


def _was_at_rest(state: JobState, entry: CheckpointCompleted, planned: BatchId) -> bool:
    """Whether the checkpoint was adopted here, and no batch was planned after `planned` by then. The position of a
    copy's source is unknown here, also when the source had adopted it."""
    copied = any(run.purpose == "maintenance" and run.next_sequence is not None for run in state.runs)
    return entry.adopted is not None and not copied and entry.adopted.planned <= planned


def require_no_skips(job: JobName, taken: Taken, repeats: Repeats, *, may_have_more: bool) -> None:
    """Raises `Conflict` when rows would fall under batch ids that the writer skips, or may skip."""
    if repeats == "accept" and not taken.always_skips:
        return
    first = BatchId(taken.planned + 1)
    if taken.known and taken.newest is not None and taken.newest >= first:
        raise _shows_left(job, taken, first) if taken.shows_left else _skips(job, taken, first)
    if not taken.known and may_have_more:
        raise _may_skip(job, taken, first)


def is_behind(taken: Taken, reached: BatchId, durable: BatchId) -> bool:
    """Whether the sink was put back to between a checkpoint, at `durable`, and what a directory has reached: with the
    plans of the batches in between it is exact from the checkpoint, and not from the directory."""
    refused = taken.known and taken.without_earlier == "refuse"
    return refused and taken.newest is not None and durable <= taken.newest < reached


def require_earlier(
    job: JobName, taken: Taken, barrier: BatchId | None, *, may_be_empty: bool, accept: bool, warn: Warn
) -> None:
    """Raises `Conflict` when the sink lacks batches up to `barrier`, behind which the job resumes: nobody would write
    them again. `may_be_empty`: it may be another one than before, with nothing in it."""
    newest = NONE_YET if taken.newest is None else taken.newest
    if not taken.known or barrier is None or newest >= barrier or accept:
        return
    if taken.without_earlier == "ignore" or (taken.newest is None and may_be_empty):
        return
    has = "has no batch" if taken.newest is None else f"has batches up to {taken.newest}"
    lacks = f"{taken.writer} {has}, and the job resumes behind batch {barrier}"
    if taken.without_earlier == "warn":
        warn(f"{lacks}: unless the batches in between had no rows, it was put back from an older copy and lacks them")
        return
    ways = [
        "restore it",
        f"go back to the checkpoint at batch {newest}, if there is one (holdfast checkpoints): --from-checkpoint ID",
        f"let its output begin after batch {barrier}: --accept-sink",
    ]
    raise Conflict(
        f"could not start job {job!r}: {lacks}: it was put back from an older copy, emptied or replaced, and the rows "
        "in between would be missing",
        hint="; or ".join(ways if taken.newest is not None else [ways[0], ways[2]]),
    )


def _skips(job: JobName, taken: Taken, first: BatchId) -> Conflict:
    ways = [
        "start it where the previous run left its work directory",
        "give the writer another path, once with --accept-sink",
        "let holdfast write: return the DataFrame and give a sink",
    ]
    if not taken.always_skips:
        ways.append("if the writer accepts batch ids that it has seen: --repeats accept")
    return Conflict(
        f"could not start job {job!r}: the home has no plan of batch {first}, so Spark plans it again, but "
        f"{taken.writer} has batch {taken.newest} already and skips {_batches(first, taken.newest)}: their rows "
        "would be lost",
        hint="; or ".join(ways),
    )


def _shows_left(job: JobName, taken: Taken, first: BatchId) -> Conflict:
    command = taken.take_back or "it has no version without them: empty it"
    return Conflict(
        f"could not start job {job!r}: batches from {first} on are cut anew, and {taken.writer} still shows "
        f"{_batches(first, taken.newest)} of before: their rows would be there twice",
        hint=f"take them back, then start again: {command}. If their rows are taken out of it otherwise: "
        "--repeats accept",
    )


def _may_skip(job: JobName, taken: Taken, first: BatchId) -> Conflict:
    return Conflict(
        f"could not start job {job!r}: the home has no plan of batch {first}, so Spark plans it again, and the "
        f"previous run may have written later ones to {taken.writer}, whose position is unknown: if it skips batch ids "
        "that it has seen, rows are lost",
        hint="start it where the previous run left its work directory; or put the plans back from a copy of the home; "
        "or if the writer accepts batch ids that it has seen, for example by replacing rows: --repeats accept; or "
        "report its newest batch: sink_position=function. With --plans require, no batch reaches the writer without a "
        "plan",
    )


def _batches(first: BatchId, newest: BatchId | None) -> str:
    return f"batch {first}" if newest == first else f"batches {first} to {newest}"
