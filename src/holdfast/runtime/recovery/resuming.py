"""Ask everyone, then decide, then do.

    restored   a directory to start in (`recovery`)
    query      does it fit what the directory holds?
    sink       can it take back what lies behind, and may it?
    source     is what must be read again still there?
    journal    what is abandoned, in one go
    sink       opened, rewound or published up to the barrier, the rest discarded

Whoever refuses does so before the journal says anything: the next start goes on as if this one had not been. Sink and
source are asked before the claim, too, about what the journal alone can foresee: then a refusal leaves no trace at all.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import HoldfastError
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
        """`is_dead` says of a run that its process can be seen to be gone."""
        self._query = query
        self._consent = consent
        self._recovery = recovery
        self._journal = journal
        self._is_dead = is_dead
        self._step = step

    def go_on(self, resumed: Resumed) -> bool:
        """Whether differences of the query were overridden that Spark may break on. After this the query may start."""
        overridden = self._query.preflight(resumed.directory, resumed.barrier)
        published = self._consent.published()
        self._consent.require_staged(resumed, resumed.directory.ledger)
        self._consent.ask(resumed)
        self._recovery.record_abandonment(resumed, published)
        if resumed.abandons is not None:
            self._step("recovery.back")
        self.align(resumed)
        return overridden

    def bring_back(self) -> None:
        """Of the checkpoints that were passed over, the newest that the job can go on from as if nothing had been: its
        bytes are right, and the sink shows what it showed or has all that is to be shown again."""
        for entry in may_return(self._journal.state, self._is_dead):
            if self._can_return(entry) and self._recovery.is_sound(entry):
                log.warning("checkpoint %s was passed over and is whole again: the job goes on from it", entry.id)
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
            log.debug("checkpoint %s cannot come back: %s", entry.id, error.message)
            return False

    def align(self, resumed: Resumed) -> None:
        """Bring the sink to the same point."""
        sink, consent = self._query.sink, self._consent
        if sink is None:
            return
        first = not consent.opened
        new_place, accept = first and consent.new_place, first and consent.context.accept
        if first:
            self._query.open_sink(consent.context)
            consent.sink_is_open()
            self._step("recovery.fenced")
        published = sink.published()
        if published is not None and (resumed.durable is None or published > resumed.durable):
            consent.require_may_take_back(sink, published, resumed.durable)
        align_sink(sink, resumed, new_place=new_place, accept=accept)
        if first:
            self._step("recovery.aligned")


def align_sink(sink: Sink, resumed: Resumed, *, new_place: bool = False, accept: bool = False) -> None:
    """Make the visible output that of batches up to `durable`; keep staged only what the directory has committed.

    In a new place the output begins after `durable`: what was staged up to there lies elsewhere. With `accept`, batches
    are left out of which a staged file is gone.
    """
    directory, durable = resumed.directory, resumed.durable
    directory.drop_ledger_after(resumed.barrier)
    ledger = directory.ledger()
    published = sink.published()
    if durable is None:
        sink.rewind(None)
    elif published is None or published < durable:
        if new_place:
            log.warning("%s has no output of this job yet: it begins after batch %s", sink.describe(), durable)
        sink.publish(durable, () if new_place else _whole(sink, ledger, published, durable) if accept else ledger)
    elif published > durable:
        sink.rewind(durable)
    keep = tuple(batch for batch in ledger if durable is None or batch.batch_id > durable)
    sink.discard(keep)


def _whole(
    sink: Sink, ledger: tuple[StagedBatch, ...], published: BatchId | None, durable: BatchId
) -> tuple[StagedBatch, ...]:
    """What is to be published, without batches of which something is gone: a person has asked for it."""
    first = 0 if published is None else published + 1
    wanted = [batch for batch in ledger if first <= batch.batch_id <= durable]
    left_out = [batch for batch in wanted if sink.lost((batch,))]
    if left_out:
        log.warning(
            "%s goes on without %s rows of batches %s, as was asked for: what they staged is gone",
            sink.describe(),
            sum(file.rows for batch in left_out for file in batch.files),
            ", ".join(str(batch.batch_id) for batch in left_out),
        )
    return tuple(batch for batch in wanted if batch not in left_out)
