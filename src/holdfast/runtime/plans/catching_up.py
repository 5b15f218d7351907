"""Brings a work directory to where the plans in the home end, before the query goes on: with the user's own writer, or
with a sink of holdfast that shows each batch.

Asked first, when nothing is abandoned yet: can every batch that the writer may have be repeated as it was? Else the
writer would skip ids under which other rows come, and they would be lost: then the start is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.checkpoint.packed_plans import packed_path
from holdfast.errors import Conflict, StorageError
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import log, phase
from holdfast.plans.log import Standing
from holdfast.plans.packing import encode_packed
from holdfast.plans.plan import Plan
from holdfast.plans.query_id import metadata_on_line
from holdfast.plans.replay import How, Repeat, repeats
from holdfast.plans.spark_logs import has_state, is_stateful, standing_offsets, take_back_commit
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_begins, line_of
from holdfast.runtime.clock import Clock
from holdfast.runtime.own_writer import (
    NONE_YET,
    Repeats,
    Taken,
    WriterRecord,
    is_behind,
    ours,
    require_earlier,
    require_no_skips,
)
from holdfast.runtime.plans.keeping import PlanKeeper
from holdfast.runtime.plans.ways_out import broken_plans, two_ids, ways_out
from holdfast.runtime.ports import Query, RunDirectory
from holdfast.runtime.recovery.recovery import Resumed, is_copied
from holdfast.sinks.protocol import Sink
from holdfast.storage.durable import storage_errors

_NO_PLANS = Standing(())


class CatchingUp:
    def __init__(
        self,
        *,
        job: JobName,
        query: Query,
        journal: Journal,
        keeper: PlanKeeper | None,
        repeats: Repeats,
        host: str,
        accepts_sink: bool = False,
        older_home: bool = False,
        clock: Clock,
    ) -> None:
        """`keeper` is None when no plans are kept. `older_home`: the user accepts a home older than its sink."""
        self._clock = clock
        self.repeated_s: float | None = None
        """So long took each batch that was run again, the last time that some were; None when none were."""
        self._job = job
        self._journal = journal
        self._host = host
        self._query = query
        self._keeper = keeper
        self._repeats = repeats
        self._accepts_sink = accepts_sink
        self._older_home = older_home
        self._compared = NONE_YET
        """The newest batch that was planned when the plans were compared with the sink, until they are repeated."""

    def require_no_skips(self, resumed: Resumed, may_have_more: Callable[[BatchId], bool]) -> Taken | None:
        """How far a writer of the query's own is, and up to where batches will be as they were; None when holdfast
        writes. `may_have_more` says whether it may have got batches behind one.

        Raises `Conflict` when rows would be lost; also where holdfast writes, before its sink is rewound.
        """
        standing = self._standing(resumed)
        if (sink := self._query.sink) is not None:
            if standing.broken is not None:
                raise self._broken(ours(sink, None), standing.broken, resumed.barrier)
            return None
        new_line = resumed.abandons is not None or self._begins_line(standing)
        taken = self._taken(resumed.directory, standing, new_line=new_line)
        if taken is None:
            return None
        self._require_repeatable(taken, standing, resumed.barrier)
        newest = standing.plans[-1].batch_id if standing.plans else NONE_YET
        taken = replace(taken, planned=max(taken.planned, newest))
        self._compared = taken.planned
        more, back = may_have_more(taken.planned), resumed.abandons is not None
        require_no_skips(self._job, taken, self._repeats, may_have_more=more, goes_back=back)
        self._require_earlier(taken, resumed, new_line=new_line)
        return taken

    def _require_earlier(self, taken: Taken, resumed: Resumed, *, new_line: bool) -> None:
        state = self._journal.state
        newest = state.newest_of_the_line()
        may_be_empty = new_line or (newest is not None and newest.adopted is None and is_copied(state, newest.id))
        accept, warn = self._accepts_sink, log.warning
        recorded = WriterRecord(state, resumed.checkpoint, claimed=True)
        require_earlier(
            self._job, taken, resumed.barrier, recorded, may_be_empty=may_be_empty, accept=accept, warn=warn
        )

    def lost(self, directory: RunDirectory) -> str | None:
        """Why the directory of the previous run is not used, though it is sound: the sink of the query's own writer
        lacks batches that the directory has behind it, and the home has their plans."""
        reached, newest = directory.newest_barrier(), self._journal.state.newest_of_the_line()
        if self._query.sink is not None or self._keeper is None or self._accepts_sink or reached is None:
            return None
        if newest is None or (taken := self._query.own_writer(directory)) is None:
            return None
        durable = newest.barrier_batch_id
        had, planned = WriterRecord(self._journal.state).last(), self._keeper.planned_behind(durable)
        if not is_behind(taken, reached, durable, had, planned):
            return None
        return f"{taken.writer} has batches up to {taken.newest}, and the directory resumes after batch {reached}"

    def repeats_plans(self, resumed: Resumed) -> bool:
        """A line of batches that is being left is not repeated."""
        return self._keeper is not None and resumed.abandons is None

    def _standing(self, resumed: Resumed) -> Standing:
        if self._keeper is None or not self.repeats_plans(resumed):
            return _NO_PLANS
        standing = _behind(self._keeper, resumed.barrier, packed_in(resumed))
        if standing.broken is not None:
            self._keeper.require_ours(standing.plans)
        return standing

    def ship_left(self, resumed: Resumed) -> None:
        """What the run before could not make durable, of the batches in the directory that this run has taken over."""
        if self._keeper is not None and resumed.is_local and resumed.barrier is not None:
            self._keeper.ship_left(resumed.directory, resumed.durable, resumed.barrier)

    def _begins_line(self, standing: Standing) -> bool:
        """No batch of the line that the job is on was planned yet."""
        return not standing.plans and line_begins(self._journal.state)

    def _taken(self, directory: RunDirectory, standing: Standing, *, new_line: bool) -> Taken | None:
        """The sink knows the batches by the query's id. Without a checkpoint of their line, only their plans have
        it."""
        if standing.plans:
            _put_id(directory, standing.plans[0].metadata)
        if (sink := self._query.sink) is not None:
            return ours(sink, sink.published())
        return self._query.own_writer(directory, new_line=new_line)

    def _take_new_id(self, directory: RunDirectory) -> None:
        """So that no sink takes the batches of this line for those of an earlier one."""
        state = self._journal.state
        if (held := _metadata(directory)) is not None:
            _put_id(directory, metadata_on_line(held, line_of(state), state.lineage or ""))

    def catch_up(self, directory: RunDirectory, packed: Sequence[Plan] = ()) -> None:
        """Repeat what is planned behind the directory's newest batch. After this the query may start in it.

        `packed`: what newer checkpoints hold of it.
        """
        if self._query.sink is not None and self._keeper is None:
            self._repeat_shown(directory, self._query.sink, packed)
            return
        barrier = directory.newest_barrier()
        standing = _NO_PLANS if self._keeper is None else self._read(self._keeper, barrier, packed)
        if self._query.sink is None and self._begins_line(standing):
            self._take_new_id(directory)
        if self._keeper is None or (taken := self._taken(directory, standing, new_line=False)) is None:
            return
        if packed and line_begins(self._journal.state):
            self._keeper.begin_line(packed)
        plans = self._plans_behind(self._keeper, directory, barrier, standing, taken)
        self._require_reached(self._keeper, barrier, plans, taken)
        sink_has = taken.newest if self._is_trusted(taken) else None
        # Of a directory that begins it cannot be seen whether there will be state.
        steps = repeats(plans, sink_has, stateful=barrier is None or is_stateful(directory))
        if steps:
            log.info("repeating %s planned batches, from %s to %s", len(steps), steps[0].batch_id, steps[-1].batch_id)
            with phase("repeating batches"):
                self._repeat_timed(directory, steps)
        newest = steps[-1].batch_id if steps else barrier
        # A newer run on this host may have removed the directory meanwhile.
        with storage_errors(f"read the newest plan in {directory.location}"):
            self._keeper.begin(directory, newest)

    def _repeat_shown(self, directory: RunDirectory, sink: Sink, packed: Sequence[Plan]) -> None:
        """Readers see a batch with its checkpoint, so nothing but what checkpoints hold is repeated. Their plans stay
        in the directory: Spark may forget these batches before the next checkpoint."""
        plans = _wanted(packed, directory.newest_barrier())
        if not plans:
            return
        with storage_errors(f"put the plans of batches into {directory.location}"):
            directory.write_atomic(packed_path(plans[0].batch_id, plans[-1].batch_id), encode_packed(plans))
        steps = repeats(plans, sink.published(), stateful=is_stateful(directory))
        log.info("repeating %s batches, from %s to %s", len(steps), steps[0].batch_id, steps[-1].batch_id)
        self._repeat_timed(directory, steps)

    def _is_trusted(self, taken: Taken) -> bool:
        """A writer that takes ids again may have got those of a line that was left: its newest one tells nothing."""
        return taken.known and (self._repeats == "refuse" or taken.always_skips)

    def _repeat_timed(self, directory: RunDirectory, steps: tuple[Repeat, ...]) -> None:
        began = self._clock.monotonic()
        self._repeat(directory, steps)
        if run_again := sum(step.how in (How.DISCARD, How.WRITE) for step in steps):
            self.repeated_s = (self._clock.monotonic() - began) / run_again

    def _repeat(self, directory: RunDirectory, steps: tuple[Repeat, ...]) -> None:
        first, *rest = steps
        if first.batch_id == 0:
            self._begin(directory, first)
            steps = tuple(rest)
        if steps:
            self._query.repeat(directory, steps)

    def _begin(self, directory: RunDirectory, first: Repeat) -> None:
        """A run that was taken over alive may write batch 0 at this very moment. The sink then skips it here, without
        running it, and nothing in the directory tells that there should be state: checkpoints would be made without.
        So where no state appears the batch is run again for its sake. Of a later one Spark misses the state itself."""
        self._query.repeat(directory, (first,))
        if first.how is How.WRITE and not has_state(directory):
            take_back_commit(directory, first.batch_id)
            self._query.repeat(directory, (Repeat(first.plan, How.DISCARD),))

    def _plans_behind(
        self, keeper: PlanKeeper, directory: RunDirectory, barrier: BatchId | None, standing: Standing, taken: Taken
    ) -> list[Plan]:
        following = _following(barrier)
        self._require_repeatable(taken, standing, barrier)
        own = standing_offsets(directory, following)
        if own is None:
            return list(standing.plans)
        plans = list(standing.plans) or [keeper.take_along(directory, barrier, own)]
        if plans[0].offsets.encode() != own and taken.newest is not None and taken.newest >= following:
            keeper.require_ours(plans)
            raise Conflict(
                f"could not start job {self._job!r}: {taken.writer} has batch {following} already, "
                f"{directory.location} has planned it one way and run {plans[0].fencing_epoch} another: nobody can "
                "tell which rows it got",
                hint=f"compare the rows of the sink with those of the source; then {self._ways_out(taken, barrier)}",
            )
        return plans

    def _require_repeatable(self, taken: Taken, standing: Standing, barrier: BatchId | None) -> None:
        if standing.broken is not None:
            raise self._broken(taken, standing.broken, barrier)
        other = _other_line(standing.plans)
        if other is not None and taken.known and taken.always_skips:
            state, older = self._journal.state, self._older_home
            raise two_ids(self._job, state, taken, other, barrier, self._host, older_home=older)

    def _require_reached(
        self, keeper: PlanKeeper, barrier: BatchId | None, plans: Sequence[Plan], taken: Taken
    ) -> None:
        """The plans were read again since they were compared with the sink. A home that another one has replaced in
        between has none, and the batches that the sink has would be cut anew (seed 0)."""
        ends = max(taken.planned, NONE_YET if barrier is None else barrier, *(plan.batch_id for plan in plans))
        newest = taken.newest if self._is_trusted(taken) else None
        compared, self._compared = self._compared, NONE_YET
        if max(compared, NONE_YET if newest is None else newest) > ends:
            keeper.require_ours(plans)
            raise self._broken(taken, f"the home has no plan of batch {ends + 1}", barrier)

    def _read(self, keeper: PlanKeeper, barrier: BatchId | None, packed: Sequence[Plan]) -> Standing:
        """What counts of the plans in the home. They are asked for before it is asked whether they are this run's: a
        newer one deletes those that its checkpoints made needless, and to this run that is a gap.

        A home that does not answer, or is another one, keeps no query from its restart in the same directory: what this
        run has put there is known. Elsewhere it does: more than the next batch is to be repeated there."""
        try:
            standing = _behind(keeper, barrier, packed)
            if standing.plans or standing.broken is not None:
                keeper.require_ours(standing.plans)
        except StorageError as error:
            following = _following(barrier)
            if (
                keeper.mode == "require"
                or keeper.newest is None
                or max(keeper.newest.batch_id, self._compared) > following
            ):
                raise
            log.warning("starting the query without checking its plans: %s", error.message)
            newest = keeper.newest
            return Standing((newest,) if newest.batch_id == following else ())
        return standing

    def _ways_out(self, taken: Taken, barrier: BatchId | None) -> str:
        return ways_out(self._journal.state, taken, barrier, self._host, older_home=self._older_home)

    def _broken(self, taken: Taken, broken: str, barrier: BatchId | None) -> Conflict:
        state, older = self._journal.state, self._older_home
        return broken_plans(self._job, state, taken, broken, barrier, self._host, older_home=older)


def _metadata(directory: RunDirectory) -> str | None:
    return directory.read("metadata").decode() if "metadata" in directory.names() else None


def _put_id(directory: RunDirectory, metadata: str) -> None:
    if _metadata(directory) != metadata:
        # The checksum of what stood there before would be wrong.
        directory.remove(".metadata.crc")
        directory.write_atomic("metadata", metadata.encode())


def _other_line(plans: Sequence[Plan]) -> BatchId | None:
    """The first batch that has another id of the query than those before it. A sink knows its batches by that id."""
    return next((plan.batch_id for plan in plans if plan.metadata != plans[0].metadata), None)


def _following(barrier: BatchId | None) -> BatchId:
    return BatchId(0 if barrier is None else barrier + 1)


def packed_in(resumed: Resumed) -> tuple[Plan, ...]:
    """The plans that newer checkpoints hold of the batches behind the one that was restored."""
    return () if resumed.replay is None else resumed.replay.plans


def _behind(keeper: PlanKeeper, barrier: BatchId | None, packed: Sequence[Plan]) -> Standing:
    """What is packed comes first, and what has an object of its own follows it."""
    wanted = _wanted(packed, barrier)
    standing = keeper.log().behind(wanted[-1].batch_id if wanted else barrier)
    return Standing((*wanted, *standing.plans), standing.broken)


def _wanted(packed: Sequence[Plan], barrier: BatchId | None) -> tuple[Plan, ...]:
    return tuple(plan for plan in packed if barrier is None or plan.batch_id > barrier)
