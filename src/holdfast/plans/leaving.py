"""How plain Spark goes on from a restored checkpoint with the query's own writer. Pure.

Behind the barrier the query has run batches that its sink has. Their ids must not come again with other rows: a sink
that knows ids would skip them, and rows would be lost. Spark repeats exactly the newest planned batch and no other. So:

- without state, the plans and made-up commits of what the sink has are put in place, and nothing is run again;
- with state, each of these batches is run once more for the state alone, into a writer that keeps nothing.

A sink that cannot be asked has every batch up to the one before the newest plan: Spark plans a batch when the one
before it is done. A plan comes a moment after its batch began, so the sink may have batches that nobody has a plan of.
Their ids pass without rows, and what they read comes again under new ids: twice, and never missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.plans.plan import Plan
from holdfast.plans.spark_logs import Directory, commit, put_in_place

Batches = tuple[BatchId, BatchId]
"""The first and the last."""


@dataclass(frozen=True)
class Continuation:
    barrier: BatchId
    known: BatchId
    """The newest batch whose plan is known; the barrier when none is."""
    writer_has: BatchId | None
    """The newest batch that the sink has, -1 for none; None when it cannot be asked."""
    stateful: bool

    @property
    def had(self) -> BatchId:
        """The newest batch that the sink has for certain."""
        return self.writer_has if self.writer_has is not None else BatchId(max(self.barrier, self.known - 1))

    @property
    def planned(self) -> BatchId:
        """The newest batch that is planned, with those that pass without rows."""
        return max(self.known, self.had)

    @property
    def missing(self) -> Batches | None:
        """The sink lacks them, and nobody writes them again."""
        return _batches(self.had + 1, self.barrier)

    @property
    def twice(self) -> Batches | None:
        """The sink has them, and nobody knows what they read: it comes again."""
        return _batches(self.known + 1, self.had)

    @property
    def skipped(self) -> Batches | None:
        """The sink has them, and their plans are put in place as done."""
        return None if self.stateful else _batches(self.barrier + 1, self._done)

    @property
    def replayed(self) -> Batches | None:
        """The sink has them, and they are run once more for the state alone."""
        return _batches(self.barrier + 1, self.had) if self.stateful else None

    @property
    def repeated(self) -> BatchId | None:
        """With this batch the query's own writer begins, with the same rows as before; None: with a new one."""
        first = max(self.had if self.stateful else self._done, self.barrier) + 1
        return BatchId(first) if first <= self.planned else None

    @property
    def exact(self) -> bool:
        """Whether the sink has every row once afterwards, if it skips the ids that it has."""
        return self.writer_has is not None and self.missing is None and self.twice is None

    @property
    def _done(self) -> int:
        """Without state: up to here commits are made up. That of a batch needs the plan of the next one; a sink that
        has the last one skips it."""
        return min(self.had, self.planned - 1)


def continuation(barrier: BatchId, known: BatchId, writer_has: BatchId | None, *, stateful: bool) -> Continuation:
    return Continuation(barrier, max(barrier, known), writer_has, stateful)


def without_rows(directory: Directory, batch: BatchId) -> Plan:
    """The plan of a batch that reads nothing behind the batch before it, which is planned in the directory."""
    return Plan(
        batch_id=batch,
        fencing_epoch=FencingEpoch(0),
        attempt=AttemptId(""),
        metadata=directory.read("metadata").decode(),
        offsets=directory.read(f"offsets/{batch - 1}").decode(),
    )


def put_plans_in_place(directory: Directory, plans: Sequence[Plan], way: Continuation) -> None:
    """All that can be done before the query runs. `plans` are those behind the barrier, without a gap."""
    known = {plan.batch_id: plan for plan in plans}

    def place(batch: BatchId) -> Plan:
        plan = known.get(batch) or without_rows(directory, batch)
        put_in_place(directory, plan)
        return plan

    first, last = way.skipped or (0, -1)
    for batch in range(first, last + 1):
        plan = place(BatchId(batch))
        following = known.get(BatchId(batch + 1)) or msgspec.structs.replace(plan, batch_id=BatchId(batch + 1))
        commit(directory, plan, following)
    begins = way.replayed[0] if way.replayed is not None else way.repeated
    if begins is not None:
        place(begins)


def _batches(first: int, last: int) -> Batches | None:
    return (BatchId(first), BatchId(last)) if first <= last else None
