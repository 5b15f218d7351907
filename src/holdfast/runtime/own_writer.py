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
from holdfast.identifiers import BatchId, CheckpointId, JobName
from holdfast.job_log import log
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.state import JobState
from holdfast.sinks.protocol import Sink

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
    earlier: Literal["unknown", "reported", "all"] = "unknown"
    """Which of the batches that do not come again it must have, or it was put back from an older copy, emptied or
    replaced. A sink that may keep no record of a batch without rows must have what it reported once."""
    shows: BatchId | None = None
    """Where a new line of batches begins, under another id of the query: the newest batch that it shows of before."""
    shows_another_line: bool = False
    """`shows` is not a batch of the line that the directory is of."""
    restored_to: Callable[[], BatchId | None] = lambda: None
    """The newest batch that readers see, when that is older than `newest`: somebody restored an older version of the
    table, and its record of the batches stayed. None when they see all. May read the table's history."""
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


def ours(sink: Sink, published: BatchId | None) -> Taken:
    """A sink of holdfast that shows each batch, as if it were a writer of the user's own."""
    return Taken(sink.describe(), published, known=True, always_skips=True, rewinds=True)


@dataclass(frozen=True)
class WriterReported:
    """What the sink of the query's own writer has reported once. Unless it was put back since, it has that."""

    newest: BatchId
    upto: BatchId
    """The batches up to this one had been written then. Those that it did not report had no rows."""
    when: str
    """Completes "when …"."""

    def explains(self, newest: BatchId, barrier: BatchId) -> bool:
        """Whether a sink that has batches up to `newest` has all rows of the batches up to `barrier`."""
        return newest >= min(self.newest, barrier) and barrier <= self.upto


def asked(ask: Callable[[], Taken | None]) -> Taken | None:
    """How far the writer is; None when its sink does not answer. It may be code of the user's own."""
    try:
        return ask()
    except Exception as error:
        log.debug("could not read the newest batch of the query's own writer: %s", error)
        return None


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


def require_no_skips(
    job: JobName, taken: Taken, repeats: Repeats, *, may_have_more: bool, goes_back: bool = False
) -> None:
    """Raises `Conflict` when rows would fall under batch ids that the writer skips, or may skip. `goes_back`: this
    start leaves the batches that the job has planned, so it is of no use to find their plans."""
    if repeats == "accept" and not taken.always_skips:
        return
    first = BatchId(taken.planned + 1)
    if taken.known and taken.newest is not None and taken.newest >= first:
        raise _shows_left(job, taken, first) if taken.shows_left else _skips(job, taken, first, goes_back=goes_back)
    if not taken.known and may_have_more:
        raise _may_skip(job, taken, first, goes_back=goes_back)


@dataclass(frozen=True)
class WriterRecord:
    """What the journal has recorded of the sink of the query's own writer."""

    state: JobState
    checkpoint: CheckpointId | None = None
    """The checkpoint that the job resumes from; None: it resumes in the previous run's directory."""
    claimed: bool = False
    """`state` includes the claim of the starting run."""

    def last(self) -> WriterReported | None:
        """What the sink reported last before the job resumes there."""
        newest = self._checkpoint()
        for run in reversed(self.state.runs) if self.checkpoint is None else ():
            end = self.state.ends.get(run.fencing_epoch)
            if newest is not None and (end is None or end.sequence < newest.sequence):
                continue
            if end is not None and end.writer_has is not None:
                upto = end.writer_has if end.planned is None else end.planned
                return WriterReported(end.writer_has, upto, f"run {run.fencing_epoch} ended")
        return None if newest is None else _reported_at(newest)

    def without_rows(self) -> CheckpointCompleted | None:
        """The checkpoint, when rescaling made it: no writer has seen its last batch."""
        entry = self._checkpoint()
        return entry if entry is not None and entry.rescaled is not None else None

    def sink_left(self) -> str:
        """The sink of holdfast that the last run wrote to; "" when it had a writer of the user's own."""
        runs = self.state.runs[:-1] if self.claimed else self.state.runs
        for run in reversed(runs):
            end = self.state.ends.get(run.fencing_epoch)
            if run.purpose == "pipeline" and not (end is not None and end.never_ran):
                return run.sink
        return ""

    def exact_from(self, newest: BatchId) -> CheckpointId | None:
        """The newest checkpoint that a sink with batches up to `newest` has all rows of, and no more."""
        for entry in self.state.restorable():
            reported = _reported_at(entry)
            barrier = entry.barrier_batch_id
            if barrier == newest or (barrier > newest and reported is not None and reported.explains(newest, barrier)):
                return entry.id
        return None

    def _checkpoint(self) -> CheckpointCompleted | None:
        return self.state.newest_of_the_line() if self.checkpoint is None else self.state.completed[self.checkpoint]


def _reported_at(entry: CheckpointCompleted) -> WriterReported | None:
    if entry.writer_has is None:
        return None
    return WriterReported(entry.writer_has, entry.barrier_batch_id, f"checkpoint {entry.id} was taken")


def require_alone(job: JobName, taken: Taken, repeats: Repeats, other: Callable[[], JobName | None]) -> None:
    """Raises `Conflict` when another job that was made of the same query may have written to the same place. A sink
    that reports its newest batch shows that itself."""
    if taken.earlier != "unknown" or repeats == "accept" or (name := other()) is None:
        return
    raise Conflict(
        f"could not start job {job!r}: job {name!r} of this home was made of the same query and has gone on from "
        f"there. Where {taken.writer} writes cannot be seen: rows would be there twice, or be skipped under batch ids "
        "that it has seen",
        hint=f"go on with job {name!r} and leave this one; or, if this one writes elsewhere: --repeats accept, once",
    )


def is_behind(taken: Taken, reached: BatchId, durable: BatchId, had: WriterReported | None, planned: BatchId) -> bool:
    """Whether the sink was put back to a batch between the checkpoint at `durable` and the batch that a directory has
    `reached`. The home has the plans of the batches up to `planned`, so a resume from the checkpoint is exact; a resume
    in the directory is not."""
    if not taken.known or taken.newest is None or not durable <= taken.newest < reached:
        return False
    if taken.earlier == "reported":
        return taken.newest <= planned and not (had is not None and had.explains(taken.newest, reached))
    return taken.earlier == "all"


def require_earlier(
    job: JobName,
    taken: Taken,
    barrier: BatchId | None,
    recorded: WriterRecord,
    *,
    may_be_empty: bool,
    accept: bool,
    warn: Warn,
) -> None:
    """Raises `Conflict` when the sink lacks batches up to `barrier`, behind which the job resumes: nobody would write
    them again. `may_be_empty`: it may be another one than before, with nothing in it."""
    # A directory that begins a line has its id already, and the table has batches of the line that it comes from.
    another = taken.shows_another_line and recorded.checkpoint is not None
    shows = None if another else taken.shows
    newest = next((batch for batch in (taken.newest, shows) if batch is not None), NONE_YET)
    if barrier is not None and not accept and (left := recorded.sink_left()):
        raise _leaves(job, taken, left, barrier)
    if (restored := taken.restored_to()) is not None:
        if not accept:
            raise _was_restored(job, taken, restored, recorded.exact_from(restored))
        warn(f"{_shows_less(taken, restored)}: their rows stay missing, as --accept-sink allows")
    if not taken.known or taken.earlier == "unknown" or barrier is None or newest >= barrier:
        return
    if newest == NONE_YET and may_be_empty and not another:
        return
    has = "has no batch" if newest == NONE_YET else f"has batches up to {newest}"
    has = "shows batches that the job has left" if another else has
    if taken.earlier == "all" and newest == barrier - 1 and (made := recorded.without_rows()) is not None:
        raise _needs_every_batch(job, taken, made)
    had = recorded.last() if taken.earlier == "reported" else None
    if had is not None and had.explains(newest, barrier):
        return
    lacks = f"{taken.writer} {has}, and the job resumes after batch {barrier}"
    if accept:
        warn(f"{lacks}: rows of batches {newest + 1} to {barrier} that it lacks stay missing, as --accept-sink allows")
    elif taken.earlier == "reported" and (had is None or newest >= min(had.newest, barrier)):
        warn(f"{lacks}: unless the batches in between had no rows, it was put back from an older copy")
    else:
        known = "" if had is None else f"; it had batch {had.newest} when {had.when}"
        raise _lacks(job, f"{lacks}{known}", barrier, recorded.exact_from(newest))


def _leaves(job: JobName, taken: Taken, left: str, barrier: BatchId) -> Conflict:
    return Conflict(
        f"could not start job {job!r}: the last run wrote to {left}, where batches up to {barrier} are staged and "
        f"perhaps not published yet, and now the output goes to {taken.writer}: nobody would publish them",
        hint="start it once more with that sink, and stop it: what is staged is published; then let the output go on "
        f"here after batch {barrier}: --accept-sink",
    )


def _lacks(job: JobName, lacks: str, barrier: BatchId, exact_from: CheckpointId | None) -> Conflict:
    again = f"run the missing batches again: --from-checkpoint {exact_from}"
    accept = f"let its output go on after batch {barrier}, without the rows that it lacks: --accept-sink"
    return Conflict(
        f"could not start job {job!r}: {lacks}: it was put back from an older copy, emptied or replaced, and the rows "
        "in between would be missing",
        hint="; or ".join(["restore it", *([again] if exact_from is not None else []), accept]),
    )


def _was_restored(job: JobName, taken: Taken, shown: BatchId, exact_from: CheckpointId | None) -> Conflict:
    again = f"run the missing batches again: --from-checkpoint {exact_from}"
    accept = f"let its output go on after batch {taken.newest}, without the rows that it lacks: --accept-sink"
    return Conflict(
        f"could not start job {job!r}: {_shows_less(taken, shown)}: an older version of it was restored",
        hint="; or ".join(["restore the version with them", *([again] if exact_from is not None else []), accept]),
    )


def _shows_less(taken: Taken, shown: BatchId) -> str:
    shows = "shows no batch" if shown == NONE_YET else f"shows batches up to {shown}"
    return f"{taken.writer} {shows}, and skips {_batches(BatchId(shown + 1), taken.newest)}, which it has recorded"


def _needs_every_batch(job: JobName, taken: Taken, made: CheckpointCompleted) -> Conflict:
    assert made.rescaled is not None
    return Conflict(
        f"could not start job {job!r}: checkpoint {made.id} was rescaled, and {taken.writer} has no entry of its batch "
        f"{made.barrier_batch_id}: without one, its readers and its own compaction fail",
        hint=f"go back to the earlier number of partitions: holdfast rollback {job}@{made.rescaled.checkpoint}",
    )


def _skips(job: JobName, taken: Taken, first: BatchId, *, goes_back: bool) -> Conflict:
    ways = [
        *([] if goes_back else [_WHERE_IT_RAN]),
        "give the writer another path, once with --accept-sink",
        "let holdfast write: return the DataFrame and give a sink",
    ]
    if not taken.always_skips:
        ways.append("if the writer accepts batch ids that it has seen: --repeats accept")
    return Conflict(
        f"could not start job {job!r}: {_planned_again(first, goes_back=goes_back)}, but "
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


def _may_skip(job: JobName, taken: Taken, first: BatchId, *, goes_back: bool) -> Conflict:
    ways = [
        *([] if goes_back else [_WHERE_IT_RAN, "put the plans back from a copy of the home"]),
        "if the writer accepts batch ids that it has seen, for example by replacing rows: --repeats accept",
        "report its newest batch: sink_position=function",
    ]
    advice = "" if goes_back else ". With --plans require, no batch reaches the writer without a plan"
    return Conflict(
        f"could not start job {job!r}: {_planned_again(first, goes_back=goes_back)}, and the "
        f"previous run may have written later ones to {taken.writer}, whose position is unknown: if it skips batch ids "
        "that it has seen, rows are lost",
        hint="; or ".join(ways) + advice,
    )


_WHERE_IT_RAN = "start it where the previous run left its work directory"


def _planned_again(first: BatchId, *, goes_back: bool) -> str:
    if goes_back:
        return f"it goes back, so Spark plans batches from {first} on again"
    return f"the home has no plan of batch {first}, so Spark plans it again"


def _batches(first: BatchId, newest: BatchId | None) -> str:
    return f"batch {first}" if newest == first else f"batches {first} to {newest}"
