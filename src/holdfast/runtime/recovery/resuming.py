"""Ask query, sink and source, then decide, then act.

    restored   a directory to start in (`recovery`)
    query      does it fit the directory?
    sink       can it take back the later batches, and may it?
    source     does it still have the input that must be read again?
    journal    records what is abandoned, in one append
    sink       opened, rewound or published up to the barrier, the rest discarded

A refusal comes before any entry in the journal: the next start resumes as if this one had not happened. Sink and
source are also asked before the claim, about what the journal alone can predict: then a refusal leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.errors import HoldfastError, StorageUnreachable
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.entries import CheckpointCompleted, RunStarted
from holdfast.repository.journal import Journal
from holdfast.runtime.ports import Query
from holdfast.runtime.recovery.consent import Consent
from holdfast.runtime.recovery.memory import may_return
from holdfast.runtime.recovery.recovery import Point, Recovery, Resumed
from holdfast.sinks.ledger import require_unbroken
from holdfast.sinks.protocol import Sink, StagedBatch, Step


class Resuming:
    def __init__(
        self,
        *,
        query: Query,
        consent: Consent,
        recovery: Recovery,
        journal: Journal,
        is_dead: Callable[[RunStarted], bool],
        step: Step,
    ) -> None:
        """`is_dead` returns whether a run's process is visibly gone."""
        self._query = query
        self._consent = consent
        self._recovery = recovery
        self._journal = journal
        self._is_dead = is_dead
        self._step = step

    def go_on(self, resumed: Resumed) -> bool:
        """Whether the user overrides differences of the query that Spark may fail on. After this the query may
        start."""
        overridden = self._query.preflight(resumed.directory, resumed.barrier)
        published = self._consent.published()
        self._consent.require_staged(resumed, resumed.directory.ledger)
        self._consent.ask(resumed)
        if resumed.passes_over and self._recovery.repeats:
            self._require_still_shown(published)
        self._recovery.record_abandonment(resumed, published)
        if resumed.abandons is not None:
            self._step("recovery.back")
        self.align(resumed)
        return overridden

    def _require_still_shown(self, published: BatchId | None) -> None:
        """A run that is taken over may have published since: what readers see is repeated, and not taken back. It is
        fenced first, so that there is no later."""
        sink, consent = self._query.sink, self._consent
        if sink is None or consent.opened or consent.new_place or consent.context.accept:
            return
        self._open()
        if (now := sink.published()) != published:
            raise StorageUnreachable(
                f"could not resume from an older checkpoint: {sink.describe()} showed batches up to {published} when "
                f"it was chosen, and shows batches up to {now} now",
                hint="start again: an earlier run published them meanwhile, and can publish no more",
            )

    def _open(self) -> None:
        self._query.open_sink(self._consent.context)
        self._consent.sink_is_open()
        self._step("recovery.fenced")

    def bring_back(self) -> None:
        """Brings back the newest checkpoint that was passed over and that the job can resume from as if it had not
        been: its bytes are right, and the sink shows what it showed, or has everything that must be published again."""
        for entry in may_return(self._journal.state, self._is_dead):
            if self._can_return(entry) and self._recovery.is_sound(entry):
                log.warning("checkpoint %s was passed over and is intact again: the job resumes from it", entry.id)
                self._recovery.bring_back(entry.id)
                return

    def _can_return(self, entry: CheckpointCompleted) -> bool:
        state, sink, barrier = self._journal.state, self._query.sink, entry.barrier_batch_id
        passed = state.corrupt[entry.id]
        if sink is None:
            runs = [run.fencing_epoch for run in state.runs[:-1] if run.purpose == "pipeline"]
            ends = [state.ends.get(epoch) for epoch in runs if epoch >= passed.fencing_epoch]
            return all(end is not None and end.never_ran for end in ends)
        published = self._consent.published()
        first = 0 if published is None else published + 1
        try:
            self._consent.ask(Point(barrier=barrier, durable=barrier, durable_id=entry.id))
            if first > barrier:
                return published == passed.published
            staged = tuple(batch for batch in self._recovery.ledger_of(entry.id) if first <= batch.batch_id <= barrier)
            require_unbroken(published, barrier, staged)
            return not sink.lost(staged)
        except HoldfastError as error:
            log.debug("checkpoint %s stays passed over: %s", entry.id, error.message)
            return False

    def align(self, resumed: Resumed) -> None:
        """Bring the sink to the same point."""
        sink, consent = self._query.sink, self._consent
        if sink is None:
            return
        first = not consent.opened
        new_place, accept = first and consent.new_place, first and consent.context.accept
        if first:
            self._open()
        published = sink.published()
        if published is not None and (resumed.durable is None or published > resumed.durable):
            if consent.may_stay(resumed, published):
                resumed = replace(resumed, durable=published)
            else:
                consent.require_may_take_back(sink, published, resumed.durable)
        align_sink(sink, resumed, new_place=new_place, accept=accept)
        if first:
            self._step("recovery.aligned")


def align_sink(sink: Sink, resumed: Resumed, *, new_place: bool = False, accept: bool = False) -> None:
    """Make the visible output that of batches up to `durable`; keep staged only what the directory has committed.

    At a new location the output begins after `durable`: what was staged up to there is elsewhere. With `accept`,
    batches with a missing staged file are left out.
    """
    directory, durable = resumed.directory, resumed.durable
    directory.drop_ledger_after(resumed.barrier)
    ledger = directory.ledger()
    published = sink.published()
    if durable is None:
        sink.rewind(None)
    elif published is None or published < durable:
        if new_place:
            log.warning("%s has no output of this job yet: output begins after batch %s", sink.describe(), durable)
        sink.publish(durable, () if new_place else _whole(sink, ledger, published, durable) if accept else ledger)
    elif published > durable:
        sink.rewind(durable)
    keep = tuple(batch for batch in ledger if durable is None or batch.batch_id > durable)
    sink.discard(keep)


def _whole(
    sink: Sink, ledger: tuple[StagedBatch, ...], published: BatchId | None, durable: BatchId
) -> tuple[StagedBatch, ...]:
    """What is to be published, without batches whose staged files are gone: the user asked for that."""
    first = 0 if published is None else published + 1
    wanted = [batch for batch in ledger if first <= batch.batch_id <= durable]
    left_out = [batch for batch in wanted if sink.lost((batch,))]
    if left_out:
        log.warning(
            "%s continues without %s rows of batches %s, as --accept-sink allows: their staged files are gone",
            sink.describe(),
            sum(file.rows for batch in left_out for file in batch.files),
            ", ".join(str(batch.batch_id) for batch in left_out),
        )
    return tuple(batch for batch in wanted if batch not in left_out)
