"""What must agree before a job resumes from a point: the sink, which may have to take rows back, and the source, which
may have to be read again. Asking changes nothing.

Both are asked before the claim, about what the journal alone can predict: then a refusal leaves no trace. They are
asked again when the directory to start in exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from holdfast.errors import Conflict, Corrupt
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.job_log import log
from holdfast.plans.plan import Plan
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.going_back import Wanted
from holdfast.repository.journal import Journal
from holdfast.repository.state import JobState
from holdfast.runtime.ports import Query, RunDirectory
from holdfast.runtime.recovery.memory import abandoned_but_shown, covers
from holdfast.runtime.recovery.recovery import Known, Point
from holdfast.sinks.ledger import missing_entries, shown_runs
from holdfast.sinks.protocol import Sink, SinkContext, SinkState, StagedBatch, fingerprint

Ledger = Callable[[], tuple[StagedBatch, ...]]
"""Reads it. Raises `Corrupt`."""


class Consent:
    """Asks the sink and the source whether the job may resume from a point. Changes nothing."""

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
        planned: Callable[[BatchId | None], BatchId | None] = lambda after: after,
        still_owner: Callable[[], None] = lambda: None,
        say: Callable[..., None] = log.warning,
    ) -> None:
        """`looked` is the sink's record before the claim, None when there is no sink. `older_home`: the user wants the
        home's newest checkpoint, although the sink shows more. `planned` returns the newest batch up to which the home
        has a plan of every batch after the given one, or that one itself. `still_owner` raises `Fenced` when a newer
        run owns the job: its actions may explain what the sink shows. `say` logs the consequences for a job that
        resumes."""
        self._query = query
        self._known = known
        self._journal = journal
        self._context = context
        self._looked = looked
        self._older_home = older_home
        self._force = force
        self._planned = planned
        self._still_owner = still_owner
        self._say = say
        self._opened = False

    @property
    def new_place(self) -> bool:
        """The sink has nothing of this lineage: what the checkpoints staged is elsewhere."""
        return self._looked is not None and is_new_place(self._looked, self._context.lineage)

    @property
    def context(self) -> SinkContext:
        """The context for opening the sink."""
        return self._context

    def ask(self, point: Point) -> None:
        """Raises `Conflict` when the sink or the source does not agree."""
        self._require_not_beside(point)
        self._require_one_line(point)
        self._require_seen(point)
        self._require_rewindable(point, self.published())
        self._require_input(point)

    @property
    def opened(self) -> bool:
        """Whether the sink is open: from then on it answers itself."""
        return self._opened

    def sink_is_open(self) -> None:
        """This run has opened the sink."""
        self._opened = True

    def published(self) -> BatchId | None:
        """The newest batch that the sink shows for this job."""
        sink = self._query.sink
        if sink is None or (not self._opened and self.new_place):
            return None
        return sink.published() if self._opened or self._looked is None else self._looked.published

    def _require_not_beside(self, point: Point) -> None:
        """What the sink shows under another name of this life is never taken back: it must end where this one begins.
        What is staged under that name is published by nobody else."""
        sink, beside = self._query.sink, self._looked.beside if self._looked is not None else None
        if sink is None or beside is None:
            return
        barrier = BatchId(-1) if point.barrier is None else point.barrier
        begins = self.new_place and not self._opened
        if barrier == beside or (barrier > beside and not begins):
            return
        wrong = "be there twice" if barrier < beside else "be missing, as only that name can publish what it staged"
        raise Conflict(
            f"could not resume after batch {barrier}: {sink.describe()} shows batches up to {beside} of this job "
            f"under another name, and the rows in between would {wrong}",
            hint="start it under that name once and stop it, copy it again, and resume from there; or give it a place "
            "of its own",
        )

    def _require_one_line(self, point: Point) -> None:
        """What the sink shows up to the checkpoint's barrier must be of the checkpoint's own timeline.

        A run of another copy of the home may have run those batches again, with other rows in them. Every batch of a
        checkpoint was staged by the run that made the checkpoint, or by an earlier one. Of those behind it their plans
        say that they are the same.
        """
        sink, durable = self._query.sink, _in_checkpoint(point, self._journal.state)
        if sink is None or durable is None or (self.new_place and not self._opened):
            return
        made_by = self._known.made_by(point)
        first = None if made_by is None else sink.first_made_after(made_by)
        if first is None or first > durable:
            return
        what = (
            f"batches up to {durable} in the home are of run {made_by}, and {sink.describe()} shows batches "
            f"from {first} on of a later run, which ran them again"
        )
        if not self._context.accept:
            self._still_owner()
            raise Conflict(
                f"could not resume from batch {durable}: {what}; rows would be missing or duplicated",
                hint="start with the home of that later run"
                + self._back_to("go back to before the two diverge", lambda entry: entry.barrier_batch_id < first)
                + f"; or accept the sink as it is: --accept-sink{self._together}",
            )
        self._say("the sink is accepted as it is (--accept-sink): %s", what)

    def _require_seen(self, point: Point) -> None:
        """A run opens the sink before it runs a batch. So a sink without a record of the run that made the checkpoint
        was restored from a backup, and may show batches of another timeline."""
        sink, looked = self._query.sink, self._looked
        if sink is None or looked is None or self._opened or self.new_place or self._context.accept:
            return
        made_by = self._known.made_by(point)
        if made_by is None or made_by <= looked.fencing_epoch:
            return
        # Other runs may have started and ended between the check and the claim.
        looked = self._looked = self._query.look_at_sink(self._context) or looked
        if made_by <= looked.fencing_epoch:
            return
        self._still_owner()
        shown = "nothing" if looked.published is None else f"batches up to {looked.published}"
        raise Conflict(
            f"could not resume from batch {point.durable}: run {made_by} made it, and the newest run that "
            f"{sink.describe()} knows is run {looked.fencing_epoch}: it was put back from an older copy, and shows "
            f"{shown}",
            hint="restore the sink to its state after the last run"
            + self._back_to(
                "run the missing batches again",
                lambda entry: (
                    entry.fencing_epoch <= looked.fencing_epoch and covers(looked.published, entry.barrier_batch_id)
                ),
            )
            + f"; or accept the sink as it is: --accept-sink{self._together}",
        )

    def _back_to(self, what_for: str, fits: Callable[[CheckpointCompleted], bool]) -> str:
        """The newest checkpoint that fits, as an option to type."""
        state = self._journal.state
        done = state.went_back_for_a_start  # a rewind is carried out only once
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
        if self.may_stay(point, published):
            return
        if point.abandons is None:
            self.require_may_take_back(sink, published, durable)
        plan = sink.plan_rewind(durable)
        if plan.obstacle is not None:
            raise Conflict(
                f"could not {point.why}: {sink.describe()} shows batches up to {published} and cannot be rewound to "
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
                "%s more rows of these batches are not in the files that were published; if another writer has only "
                "moved them (OPTIMIZE), they stay and will be duplicated: delete them by hand",
                plan.rows_gone,
            )

    def may_stay(self, point: Point, published: BatchId) -> bool:
        """Whether what the sink shows behind the checkpoint is repeated as it was, so that nothing is taken back."""
        if point.abandons is not None or self._older_home:
            return False
        planned = self._planned(point.durable if point.replay is None else point.replay.upto)
        return planned is not None and published <= planned

    def require_may_take_back(self, sink: Sink, published: BatchId, durable: BatchId | None) -> None:
        """Raises `Conflict` when nothing explains why the sink shows so much."""
        if not self._may_take_back(published):
            self._still_owner()
            raise _unexplained(sink, published, durable)

    def _may_take_back(self, published: BatchId) -> bool:
        shown = abandoned_but_shown(self._journal.state)
        return self._older_home or (shown is not None and published <= shown)

    def _require_input(self, point: Point) -> None:
        """Abandoned, rewound or repeated batches run again, and need the same input."""
        if point.abandons is None and point.replay is None and not self._older_home:
            return
        planned = () if point.replay is None else _logs_in(point.replay.plans)
        logs = (*self._known.logs_of_sources(point), *planned)
        paths = sorted(set(_files_read(logs, point.barrier)))
        missing = self._query.missing_input(paths) if paths else None
        if missing is None:
            self._say(
                "to %s, batches after %s run again; whether their sources still have their input cannot be "
                "checked here",
                point.why,
                point.barrier,
            )
        elif missing:
            self._refuse_without(point, missing, len(paths))

    def _refuse_without(self, point: Point, missing: tuple[str, ...], of: int) -> None:
        gone = f"{len(missing)} of {of} files that must be read again are gone, for example {missing[0]}"
        if not self._force:
            raise Conflict(
                f"could not {point.why}: {gone}",
                hint=f"restore them, or resume without their rows: --force. {_way_on(point)}",
            )
        self._say("resuming without rows: %s", gone)

    def cost(self, barrier: BatchId) -> str | None:
        """What resuming there would take back from readers, None for nothing."""
        sink, published = self._query.sink, self.published()
        if sink is None:
            return "repeats batches that the query's own writer may have seen"
        if published is None or published <= barrier:
            return None
        plan = sink.plan_rewind(barrier)
        why = f", which cannot be done: {plan.obstacle}" if plan.obstacle else ""
        return f"takes {plan.batches} batches with {plan.rows} rows back from readers of {sink.describe()}{why}"

    def lost(self, directory: RunDirectory) -> str | None:
        """Output that committed batches of the directory staged, that is not published yet, and that is gone or no
        longer in the directory's ledger; None when there is none. Where the sink has nothing of this lineage, none of
        it is there: it was opened before any batch ran, so it was emptied or replaced since."""
        barrier, sink = directory.newest_barrier(), self._query.sink
        if barrier is None or sink is None:
            return None
        if self.new_place and not self._opened:
            return f"{sink.describe()} has nothing of what its batches wrote"
        try:
            return self._lost(directory.ledger, self.published(), barrier) or self._without_entry(directory, barrier)
        except Corrupt as error:
            return error.message

    def _without_entry(self, directory: RunDirectory, barrier: BatchId) -> str | None:
        sink = self._query.sink
        if sink is None or (self.new_place and not self._opened):
            return None
        ledger = directory.ledger()
        # Read after the ledger: a run that is being taken over drops entries of what it has published.
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
            # A run that is being taken over has published them since, and removed the staged files.
        return (
            f"{len(files)} files that batches from {first} on staged for {sink.describe()} are gone or changed, "
            f"for example {files[0]}"
        )

    def require_staged(self, point: Point, ledger: Ledger) -> None:
        """Staged output of the checkpoint, according to its `ledger`, that is not published yet must exist."""
        if point.durable is None or self._context.accept:
            return
        published = self.published()
        lost = self._lost(ledger, published, point.durable)
        if lost is None:
            return
        self._still_owner()
        raise Conflict(
            f"could not resume from batch {point.durable}: {lost}",
            hint="restore them"
            + self._back_to("run these batches again", lambda entry: covers(published, entry.barrier_batch_id))
            + f"; or resume without the rows of these batches: --accept-sink{self._together}",
        )


def _in_checkpoint(point: Point, state: JobState) -> BatchId | None:
    """Up to where `point.durable` is in a checkpoint."""
    newest = state.newest_of_the_line()
    if newest is None or point.durable is None:
        return point.durable
    return min(point.durable, newest.barrier_batch_id)


def is_new_place(state: SinkState, lineage: str) -> bool:
    return state.life is None or state.life != fingerprint(lineage)


def _unexplained(sink: Sink, published: BatchId, durable: BatchId | None) -> Conflict:
    return Conflict(
        f"could not bring {sink.describe()} to batch {durable}: it shows batches up to {published}, and no entry of "
        f"the journal abandoned those: the home is older than its sink",
        hint="restore the newest copy of the home; or resume from this one: --accept-older-home, which takes those "
        "batches back from readers",
    )


def _way_on(point: Point) -> str:
    abandons = point.abandons
    if point.replay is not None and abandons is None:
        return _repair(point.replay.damaged)
    if abandons is None:
        return (
            "restore the newest copy of the home; or delete by hand the rows of later batches that another writer has "
            "moved, and resume from what is there: --accept-older-home --accept-sink"
        )
    if abandons.back is not None:
        return "Start without going back: nothing was changed, and the job resumes where it was"
    return _repair(abandons.passed_over)


def _repair(damaged: Iterable[CheckpointId]) -> str:
    ids = ", ".join(str(id) for id in damaged)
    return f"Repair checkpoint {ids}: holdfast verify --all --repair, or restore its objects from a copy of the home"


def _logs_in(plans: Iterable[Plan]) -> Iterable[bytes]:
    return (text.encode() for plan in plans for text in plan.sources.values())


class _Read(msgspec.Struct):
    """One line of a file source's log."""

    path: str
    batchId: int


# Created here: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(_Read)


def _files_read(logs: Iterable[bytes], after: BatchId | None) -> Iterable[str]:
    """Only the file source's log is known; lines of other sources are ignored."""
    for log_of_batch in logs:
        for line in log_of_batch.splitlines()[1:]:
            try:
                read = _DECODER.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            if after is None or read.batchId > after:
                yield read.path
