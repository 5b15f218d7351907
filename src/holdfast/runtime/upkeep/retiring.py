"""Retention by the owner: retire in the journal first, delete later.

Everything here runs on the journal lane. The collector, which has its own lane, deletes.
"""

from collections.abc import Callable

from holdfast.coordination.events import Event, RunFenced
from holdfast.errors import Fenced, StorageError
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Failure, Retention
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_folder, needed_after, plan_key
from holdfast.repository.retention import checkpoints_to_retire
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors_and_reasons import reason_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.requests.serving import Reply, RequestOutcome
from holdfast.runtime.upkeep.collecting import Collector, PendingDeletions
from holdfast.runtime.upkeep.freeing import append_retirement, fold


class Retiring:
    def __init__(
        self,
        *,
        journal: Journal,
        blobs: Blobs,
        checkpointing: Checkpointing,
        collector: Collector,
        rule: Retention,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Event], None],
        plans: bool = False,
    ) -> None:
        """`plans`: the run writes plans of its batches."""
        self._plans_kept = plans
        self._plans_freed: BatchId | None = None
        """The newest batch whose plan was given to the collector; None before the first: the sweep of the start finds
        those of earlier runs."""
        self._journal = journal
        self._blobs = blobs
        self._checkpointing = checkpointing
        self._collector = collector
        self._rule = rule
        self._clock = clock
        self._lanes = lanes
        self._post = post

    def retire(self) -> None:
        self._lanes.submit("journal", self._retire)

    def fold(self) -> None:
        """At a start: runs that die before their first checkpoint make the journal longer, too."""
        self._lanes.submit("journal", self._fold)

    def collect(self, reply: Reply) -> None:
        """On request: apply retention and look for leftovers now. The deletion follows in the background."""

        def on_sweep(pending: PendingDeletions, problem: StorageError | None) -> None:
            reply(_outcome(pending, problem))

        self.retire()
        self._lanes.submit("journal", lambda: self._collector.sweep_again(on_sweep))

    def _retire(self) -> None:
        if not self._in_the_journal(self._retire_and_fold):
            return
        self._collector.orphaned(self._blobs.unclaimed() | self._checkpointing.orphaned_manifests())
        self._collector.look_at_packs()
        self._collector.orphaned(self._unneeded_plans())

    def _fold(self) -> None:
        self._in_the_journal(self._fold_if_worthwhile)

    def _in_the_journal(self, work: Callable[[], bool]) -> bool:
        try:
            self._journal.settle()  # an unknown entry may name what would be retired
            return work()
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
        except StorageError as error:
            log.warning("retention failed, retrying after the next checkpoint: %s", error.message)
        return False

    def _retire_and_fold(self) -> bool:
        newest = next(iter(self._journal.state.restorable()), None)
        if newest is not None and not self._collector.is_there(newest):
            return False
        if ids := checkpoints_to_retire(self._journal.state, self._rule):
            append_retirement(self._journal, ids)
            self._collector.retired([self._journal.state.completed[id] for id in ids])
        return self._fold_if_worthwhile()

    def _fold_if_worthwhile(self) -> bool:
        if fold(self._journal, self._rule.grace_s, self._clock.wall()):
            self._collector.folded()
        self._journal.copy_recent()
        return True

    def _unneeded_plans(self) -> frozenset[str]:
        """Told by their numbers: which of them are there need not be asked."""
        state = self._journal.state
        after, before = needed_after(state, self._rule.retained), self._plans_freed
        if not self._plans_kept or after is None:
            return frozenset()
        self._plans_freed = max(after, before or after)
        if before is None:
            return frozenset()
        return frozenset(plan_key(line_folder(state), BatchId(batch)) for batch in range(before + 1, after + 1))


def _outcome(pending: PendingDeletions, problem: StorageError | None) -> RequestOutcome:
    if problem is not None:
        reason = reason_of(problem)
        return RequestOutcome(failure=Failure(reason.value, problem.message, False, reason.rule.hint))
    waiting = f"; {pending.in_grace} more wait for their grace to end" if pending.in_grace else ""
    return RequestOutcome(message=f"{pending.ready} objects are deleted in the background{waiting}")
