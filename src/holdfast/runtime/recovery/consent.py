"""Who must agree before a job goes on from a point: the sink, which may have to take rows back, and the source, which
may have to be read again. Asking changes nothing.

They are asked before the claim, about what the journal alone can foresee: then a refusal leaves no trace at all. They
are asked again when the directory to start in is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from holdfast.errors import Conflict, Corrupt
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.going_back import Wanted
from holdfast.repository.journal import Journal
from holdfast.runtime.ports import Query, RunDirectory
from holdfast.runtime.recovery.memory import abandoned_but_shown, covers
from holdfast.runtime.recovery.recovery import Known, Point
from holdfast.sinks.ledger import missing_entries, shown_runs
from holdfast.sinks.protocol import Sink, SinkContext, SinkState, StagedBatch, fingerprint

Ledger = Callable[[], tuple[StagedBatch, ...]]
"""Reads it. Raises `Corrupt`."""


class Consent:
    """Asks the sink and the source whether the job may go on from a point. Changes nothing."""

    def __init__(
        self,
        *,
        query: Query,
        known: Known,
        journal: Journal,
        context: SinkContext,
        looked: SinkState | None,
        older_home: bool = False,
        force: bool = False,
        still_owner: Callable[[], None] = lambda: None,
        say: Callable[..., None] = log.warning,
    ) -> None:
        """`looked` is what the sink said before the claim, None when there is no sink. `older_home`: a person wants the
        home's newest checkpoint, although the sink shows more. `still_owner` raises `Fenced` when a newer run owns the
        job by now: what it did since explains what is outside. `say` is told what follows for whoever goes on."""
        self._query = query
        self._known = known
        self._journal = journal
        self._context = context
        self._looked = looked
        self._older_home = older_home
        self._force = force
        self._still_owner = still_owner
        self._say = say
        self._opened = False

    @property
    def new_place(self) -> bool:
        """The sink holds nothing of this life: what checkpoints say was staged lies elsewhere."""
        return self._looked is not None and is_new_place(self._looked, self._context.lineage)

    @property
    def context(self) -> SinkContext:
        """What the sink is to be opened with."""
        return self._context

    def ask(self, point: Point) -> None:
        """Raises `Conflict` when somebody does not agree."""
        self._require_one_line(point)
        self._require_seen(point)
        self._require_rewindable(point, self.published())
        self._require_input(point)

    @property
    def opened(self) -> bool:
        """Whether the sink is open: from then on it is asked itself."""
        return self._opened

    def sink_is_open(self) -> None:
        """This run has opened it."""
        self._opened = True

    def published(self) -> BatchId | None:
        """What the sink shows to this job."""
        sink = self._query.sink
        if sink is None or (not self._opened and self.new_place):
            return None
        return sink.published() if self._opened or self._looked is None else self._looked.published

    def _require_one_line(self, point: Point) -> None:
        """What the sink shows up to the checkpoint's barrier must be of the line of batches that the checkpoint ends.

        A run over another copy of the home may have made those batches anew: cut elsewhere, they hold other rows. Every
        batch of a checkpoint was staged by the run that made the checkpoint, or by one before it.
        """
        sink, durable = self._query.sink, point.durable
        if sink is None or durable is None or (self.new_place and not self._opened):
            return
        made_by = self._known.made_by(point)
        first = None if made_by is None else sink.first_made_after(made_by)
        if first is None or first > durable:
            return
        what = (
            f"the home has batches up to {durable} as run {made_by} made them, and {sink.describe()} shows batches "
            f"from {first} on as a later run made them anew"
        )
        if not self._context.accept:
            self._still_owner()
            raise Conflict(
                f"could not go on from batch {durable}: {what}; rows would be missing, or stand there twice",
                hint="start with the home of that later run"
                + self._back_to("go back to where the two part", lambda entry: entry.barrier_batch_id < first)
                + f"; or go on from what is there as it is: --accept-sink{self._together}",
            )
        self._say("the sink is taken as it is, as was asked for: %s", what)

    def _require_seen(self, point: Point) -> None:
        """A run opens the sink before it makes a batch. So a sink that does not know the run which made the checkpoint
        was put back from a copy, and what it shows may be of another line of batches."""
        sink, looked = self._query.sink, self._looked
        if sink is None or looked is None or self._opened or self.new_place or self._context.accept:
            return
        made_by = self._known.made_by(point)
        if made_by is None or made_by <= looked.fencing_epoch:
            return
        # Runs may have come and gone between the look and the claim.
        looked = self._looked = self._query.look_at_sink(self._context) or looked
        if made_by <= looked.fencing_epoch:
            return
        self._still_owner()
        shown = "nothing" if looked.published is None else f"batches up to {looked.published}"
        raise Conflict(
            f"could not go on from batch {point.durable}: run {made_by} made it, and the newest run that "
            f"{sink.describe()} knows is run {looked.fencing_epoch}: it was put back from an older copy, and shows "
            f"{shown}",
            hint="put the sink back to what the last run left"
            + self._back_to(
                "make what is missing anew",
                lambda entry: (
                    entry.fencing_epoch <= looked.fencing_epoch and covers(looked.published, entry.barrier_batch_id)
                ),
            )
            + f"; or go on from what is there as it is: --accept-sink{self._together}",
        )

    def _back_to(self, what_for: str, fits: Callable[[CheckpointCompleted], bool]) -> str:
        """The newest checkpoint that fits, as something to type."""
        state = self._journal.state
        done = state.went_back  # what was carried out once is not carried out again
        older = [
            entry.id
            for entry in state.restorable()
            if fits(entry) and not (done and done.asked == str(Wanted(checkpoint=entry.id)))
        ]
        return f"; or {what_for}: --from-checkpoint {older[0]}{self._together}" if older else ""

    @property
    def _together(self) -> str:
        return " --accept-older-home" if self._older_home else ""

    def _require_rewindable(self, point: Point, published: BatchId | None) -> None:
        sink, durable = self._query.sink, point.durable
        if sink is None or published is None or (durable is not None and published <= durable):
            return
        if point.abandons is None:
            self.require_may_take_back(sink, published, durable)
        plan = sink.plan_rewind(durable)
        if plan.obstacle is not None:
            raise Conflict(
                f"could not {point.why}: {sink.describe()} shows batches up to {published} and cannot be taken back to "
                f"batch {durable}: {plan.obstacle}",
                hint=_way_on(point),
            )
        self._say(
            "to %s, %s batches with %s rows are taken back from readers of %s",
            point.why,
            plan.batches,
            plan.rows,
            sink.describe(),
        )
        if plan.rows_gone:
            self._say(
                "%s more rows of these batches are not in the files that were published; where another writer has only "
                "moved them (OPTIMIZE), they stay and will stand there twice: take them out by hand",
                plan.rows_gone,
            )

    def require_may_take_back(self, sink: Sink, published: BatchId, durable: BatchId | None) -> None:
        """Raises `Conflict` when nothing explains why it shows so much."""
        if not self._may_take_back(published):
            self._still_owner()
            raise _unexplained(sink, published, durable)

    def _may_take_back(self, published: BatchId) -> bool:
        shown = abandoned_but_shown(self._journal.state)
        return self._older_home or (shown is not None and published <= shown)

    def _require_input(self, point: Point) -> None:
        """Batches that are abandoned or taken back are made anew, out of the same input."""
        if point.abandons is None and not self._older_home:
            return
        paths = sorted(set(_files_read(self._known.logs_of_sources(point), point.barrier)))
        missing = self._query.missing_input(paths) if paths else None
        if missing is None:
            self._say(
                "to %s, batches after %s are made anew; whether their sources still have what they read cannot be "
                "asked here",
                point.why,
                point.barrier,
            )
        elif missing:
            self._refuse_without(point, missing, len(paths))

    def _refuse_without(self, point: Point, missing: tuple[str, ...], of: int) -> None:
        gone = f"{len(missing)} of {of} files that must be read again are gone, {missing[0]} is one"
        if not self._force:
            raise Conflict(
                f"could not {point.why}: {gone}",
                hint=f"put them back, or go on without their rows: --force. {_way_on(point)}",
            )
        self._say("going on without rows: %s", gone)

    def cost(self, barrier: BatchId) -> str | None:
        """What going on from there would take back from readers, None for nothing."""
        sink, published = self._query.sink, self.published()
        if sink is None:
            return "makes batches anew that the query's own writer may have seen"
        if published is None or published <= barrier:
            return None
        plan = sink.plan_rewind(barrier)
        why = f", which cannot be done: {plan.obstacle}" if plan.obstacle else ""
        return f"takes {plan.batches} batches with {plan.rows} rows back from readers of {sink.describe()}{why}"

    def lost(self, directory: RunDirectory) -> str | None:
        """What committed batches of the directory staged for the sink, is not shown yet and is gone, or cannot be told
        from its ledger any more; None when nothing is."""
        barrier = directory.newest_barrier()
        if barrier is None:
            return None
        try:
            return self._lost(directory.ledger, self.published(), barrier) or self._without_entry(directory, barrier)
        except Corrupt as error:
            return error.message

    def _without_entry(self, directory: RunDirectory, barrier: BatchId) -> str | None:
        sink = self._query.sink
        if sink is None or (self.new_place and not self._opened):
            return None
        ledger = directory.ledger()
        # Read after it: a run that is being overtaken forgets entries of what it has published.
        missing = missing_entries(sink.published(), barrier, ledger)
        return f"its ledger has no entry of {shown_runs(missing)}" if missing else None

    def _lost(self, read_ledger: Ledger, published: BatchId | None, upto: BatchId) -> str | None:
        sink = self._query.sink
        if sink is None or (self.new_place and not self._opened) or (published is not None and published >= upto):
            return None
        ledger = read_ledger()
        while True:
            first = 0 if published is None else published + 1
            files = sink.lost(tuple(batch for batch in ledger if first <= batch.batch_id <= upto))
            if not files:
                return None
            before, published = published, sink.published()
            if before == published:
                break
            # A run that is being overtaken has published them since, and cleared away where they were staged.
        return (
            f"{len(files)} files that batches from {first} on staged for {sink.describe()} are gone or changed, "
            f"{files[0]} is one"
        )

    def require_staged(self, point: Point, ledger: Ledger) -> None:
        """What the checkpoint has staged, by its `ledger`, and the sink does not show yet must be there."""
        if point.durable is None or self._context.accept:
            return
        published = self.published()
        lost = self._lost(ledger, published, point.durable)
        if lost is None:
            return
        self._still_owner()
        raise Conflict(
            f"could not go on from batch {point.durable}: {lost}",
            hint="put them back"
            + self._back_to("make these batches anew", lambda entry: covers(published, entry.barrier_batch_id))
            + f"; or go on without the rows of these batches: --accept-sink{self._together}",
        )


def is_new_place(state: SinkState, lineage: str) -> bool:
    return state.life is None or state.life != fingerprint(lineage)


def _unexplained(sink: Sink, published: BatchId, durable: BatchId | None) -> Conflict:
    return Conflict(
        f"could not bring {sink.describe()} to batch {durable}: it shows batches up to {published}, and no entry of "
        f"the journal abandoned those: the home is older than its sink",
        hint="put the newest copy of the home back; or go on from this one: --accept-older-home, which takes those "
        "batches back from readers",
    )


def _way_on(point: Point) -> str:
    abandons = point.abandons
    if abandons is None:
        return (
            "put the newest copy of the home back; or take rows of later batches that another writer has moved out by "
            "hand, and go on from what is there: --accept-older-home --accept-sink"
        )
    if abandons.back is not None:
        return "Start without going back: nothing was changed, and the job goes on from where it was"
    ids = ", ".join(str(id) for id in abandons.passed_over)
    return f"Repair checkpoint {ids}: holdfast verify --all --repair, or put its objects back from a copy of the home"


class _Read(msgspec.Struct):
    """One line of a file source's log."""

    path: str
    batchId: int


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(_Read)


def _files_read(logs: Iterable[bytes], after: BatchId | None) -> Iterable[str]:
    """What other sources write there is not known here."""
    for log_of_batch in logs:
        for line in log_of_batch.splitlines()[1:]:
            try:
                read = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            if after is None or read.batchId > after:
                yield read.path
