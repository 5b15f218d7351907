"""A writer of the user's own, and the batch ids that it has seen.

Such a writer (Spark's file sink, Spark's Delta sink, a `foreachBatch` with `txnVersion`) skips batch ids that it has
taken before. That is right as long as an id stands for the same rows. In the directory of the run before it does: Spark
repeats what was planned there. After a restore it does not: the batches behind the barrier are cut anew, and what falls
under an id that the writer has seen is lost without a word. So a restore is refused when the writer has gone, or may
have gone, beyond the barrier.
"""

from dataclasses import dataclass
from typing import Literal

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.repository.entries import RunStarted
from holdfast.repository.state import JobState

NONE_YET = BatchId(-1)
Repeats = Literal["refuse", "accept"]


@dataclass(frozen=True)
class Taken:
    """What a writer of the user's own has taken, as far as it can be asked."""

    writer: str
    """Completes "… has batch 12 already"."""
    newest: BatchId | None
    """The newest batch id that it has; None when it has none, or cannot be asked."""
    known: bool
    """Whether it could be asked."""
    always_skips: bool = False
    """It is known to skip what it has seen, so nobody can say that it does not."""
    planned: BatchId = NONE_YET
    """The newest batch that Spark has planned in the directory where it is to go on. Up to there an id stands for the
    same rows as before."""


def may_have_more(state: JobState, planned: BatchId, *, local: bool, claimed: bool = True) -> bool:
    """Whether the writer may have got batches behind `planned`, by all that the journal says.

    `claimed`: `state` has the claim of the run that starts. `local`: it goes on in what the run before left. A run that
    died without a word has told nobody how far it was, but its directory tells.
    """
    earlier = state.runs[:-1] if claimed else state.runs
    wrote = _last_that_ran(state, earlier)
    if wrote is None:
        return bool(state.completed)  # a copy: nobody here knows how far the source went
    end = state.ends.get(wrote.fencing_epoch)
    if end is not None and end.planned is not None:
        return end.planned > planned
    return not (local and wrote is state.last_to_leave_batches(earlier))


def _last_that_ran(state: JobState, earlier: list[RunStarted]) -> RunStarted | None:
    """The newest of them whose query may have run."""
    for run in reversed(earlier):
        end = state.ends.get(run.fencing_epoch)
        idle = end is not None and end.never_ran and end.planned is None
        if run.purpose == "pipeline" and not idle:
            return run
    return None


def require_no_skips(job: JobName, taken: Taken, repeats: Repeats, *, may_have_more: bool) -> None:
    """Raises `Conflict` when rows would fall under batch ids that the writer skips, or may skip."""
    if repeats == "accept" and not taken.always_skips:
        return
    first = BatchId(taken.planned + 1)
    if taken.known and taken.newest is not None and taken.newest >= first:
        raise _skips(job, taken, first)
    if not taken.known and may_have_more:
        raise _may_skip(job, taken, first)


def _skips(job: JobName, taken: Taken, first: BatchId) -> Conflict:
    ways = [
        "start it where the run before left its work directory",
        "give the writer another place",
        "let holdfast write: return the DataFrame and give a sink",
    ]
    if not taken.always_skips:
        ways.append("if the writer takes rows again under ids that it has seen: --repeats accept")
    return Conflict(
        f"could not start job {job!r}: it would go on with batch {first}, whose rows are cut anew, but {taken.writer} "
        f"has batch {taken.newest} already and skips {_batches(first, taken.newest)}: their rows would be lost",
        hint="; or ".join(ways),
    )


def _may_skip(job: JobName, taken: Taken, first: BatchId) -> Conflict:
    return Conflict(
        f"could not start job {job!r}: it would go on with batch {first}, whose rows are cut anew, and the run before "
        f"may have given later ones to {taken.writer}, which cannot be asked: if it skips batch ids that it has "
        "seen, rows are lost",
        hint="start it where the run before left its work directory; or if the writer takes rows again under ids that "
        "it has seen, by replacing them for instance: --repeats accept; or say how far it is: sink_position=function",
    )


def _batches(first: BatchId, newest: BatchId | None) -> str:
    return f"batch {first}" if newest == first else f"batches {first} to {newest}"
