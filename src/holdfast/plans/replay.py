"""How planned batches are repeated behind a restored barrier. Pure.

Spark runs the newest planned batch that is not committed, and looks at no other. So plans are put into the directory
one at a time. A batch that the sink has must not reach the sink's writer: it would be skipped without being run, and
the state would stay behind. One that the sink does not have must reach it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from holdfast.identifiers import BatchId
from holdfast.plans.plan import Plan


class How(Enum):
    COMMIT = auto()
    """The sink has it and there is no state: the plan and a commit are put in place."""
    DISCARD = auto()
    """The sink has it: run for the sake of the state, into a writer that keeps nothing."""
    WRITE = auto()
    """Run with the query's own writer, alone."""
    LEAVE = auto()
    """Put in place: the query begins with it."""


@dataclass(frozen=True)
class Repeat:
    plan: Plan
    how: How

    @property
    def batch_id(self) -> BatchId:
        return self.plan.batch_id


def repeats(plans: Sequence[Plan], sink_has: BatchId | None, *, stateful: bool) -> tuple[Repeat, ...]:
    """`sink_has`: the newest batch that the sink has, None when it has none or cannot tell.

    Batch 0 is always run alone, so that it can be seen whether it ran: `CatchingUp`.
    """
    found: list[Repeat] = []
    for position, plan in enumerate(plans):
        last = position == len(plans) - 1
        if sink_has is not None and plan.batch_id <= sink_has:
            # The commit of a batch needs the watermark of the next one, which the last plan does not know.
            how = How.COMMIT if not stateful and not last else How.DISCARD
        else:
            how = How.LEAVE if last and plan.batch_id > 0 else How.WRITE
        found.append(Repeat(plan, how))
    return tuple(found)
