"""How long a recovery would take now, and whether a checkpoint is due so that it stays within the target.

A recovery restores the newest checkpoint and repeats the planned batches behind it, one at a time, each as a query of
its own: that query starts, loads the state again, and runs the batch. A query without state repeats nothing. Where
readers see a batch with its checkpoint, nothing behind the newest one is repeated. But if that one is damaged, an older
one is restored, and the batches between the two are repeated: so for every writer, no more batches lie between two
checkpoints than can be repeated within the target. What the numbers here do not tell, before a batch was repeated in
this run, is taken from what was measured once (`…_RATE`, `NEW_QUERY_S`): on an idle machine, rather too long than too
short.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.identifiers import CONTROL_SHARD, ShardId

NEW_QUERY_S = 0.6
"""To start a query and to end it."""
LOAD_RATE = 300e6
"""Bytes of state per second that a query loads when it starts."""
RESTORE_RATE = 100e6
"""Bytes per second that come back from a home."""
_WEIGHT = 0.2
"""Of the newest batch, in the mean of how long they run."""


@dataclass(frozen=True)
class RecoveryEstimate:
    """What a start on an empty disk would do now."""

    batches: int
    """Behind the newest checkpoint: they are repeated."""
    seconds: float
    target_s: float | None
    """None when there is no target."""
    fall_back_batches: int | None = None
    """That are repeated if the newest checkpoint is damaged; None when there is no older one, as far as is known."""
    fall_back_seconds: float | None = None


class RecoveryTime:
    def __init__(
        self, target: float | None, *, bytes_total: int = 0, between: int | None = None, planned: bool = True
    ) -> None:
        """`bytes_total`: the size of the newest checkpoint, as far as it is known. `between`: batches from the one
        before it up to it. `planned`: the batches behind it are repeated, too."""
        self._target = target
        self._between = between
        self._planned = planned
        self._bytes = bytes_total
        self._stateful = True
        """Unknown before the first checkpoint of this run, so the longer one is assumed."""
        self._ran_s: float | None = None
        self._repeated_s = 0.0

    def ran(self, seconds: float | None) -> None:
        """A batch ran this long; None when that is unknown."""
        if seconds is not None:
            self._ran_s = seconds if self._ran_s is None else (1 - _WEIGHT) * self._ran_s + _WEIGHT * seconds

    def repeated(self, seconds: float | None) -> None:
        """This long took each of the batches that were repeated at the start; None when none were."""
        if seconds is not None:
            self._repeated_s = seconds

    def checkpointed(self, bytes_total: int, shards: Sequence[ShardId], between: int | None = None) -> None:
        self._bytes = bytes_total
        self._between = between
        self._stateful = any(shard != CONTROL_SHARD for shard in shards)

    def estimate(self, behind: int) -> RecoveryEstimate:
        repeated = behind if self._planned else 0
        older = None if self._between is None else self._between + repeated
        older_s = None if older is None else self._takes_s(older)
        return RecoveryEstimate(repeated, self._takes_s(repeated), self._target, older, older_s)

    def due(self, behind: int) -> bool:
        """Whether so many batches behind the newest checkpoint are too many to wait for the interval.

        Half of the target is for the batches that run while the checkpoint is taken. A state so large that restoring it
        takes most of the target is no reason for one checkpoint after the other: half of the target is always for
        repeating.
        """
        if self._target is None or behind == 0:
            return False
        repeating = max(self._target - self._restoring_s, self._target / 2)
        return behind * self._a_batch_s >= repeating / 2

    def _takes_s(self, batches: int) -> float:
        return self._restoring_s + batches * self._a_batch_s

    @property
    def _restoring_s(self) -> float:
        return self._bytes / RESTORE_RATE

    @property
    def _a_batch_s(self) -> float:
        if not self._stateful:
            return 0.0
        return max(self._repeated_s, NEW_QUERY_S + self._bytes / LOAD_RATE + (self._ran_s or 0.0))
