"""Whether Spark keeps the files of a barrier as long as a checkpoint needs them. Pure.

Spark keeps a barrier's files for `minBatchesToRetain` batches. A checkpoint needs them from its trigger until they are
pinned by links; where nothing can be pinned, until they are copied.
"""

import math
from dataclasses import dataclass

from holdfast.coordination.commands import ClearAlarm, RaiseAlarm
from holdfast.identifiers import BatchId

HEADROOM = "headroom"
SETTING = "spark.sql.streaming.minBatchesToRetain"
_ENOUGH = 2.0
"""Spark must keep the files at least this many times as long as they are needed, else there is a warning."""
_PLENTY = 4.0
"""What the advice aims at; from this factor on the warning is cleared."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """As one checkpoint measured it."""

    needed_s: float
    kept_s: float
    """At the pace of the newest batches."""
    batches_retained: int
    pinned: bool
    vanished: bool = False
    """Spark deleted files too early this time, whatever the figures are."""

    @property
    def tight(self) -> bool:
        return self.vanished or self.kept_s < _ENOUGH * self.needed_s

    @property
    def plenty(self) -> bool:
        return not self.vanished and self.kept_s >= _PLENTY * self.needed_s

    @property
    def cause(self) -> str:
        kept, needed = _shown(self.kept_s), _shown(self.needed_s)
        return (
            f"Spark deletes the files of a batch after about {kept} ({SETTING}={self.batches_retained}), "
            f"and a checkpoint needs them for {needed}, until they are {'pinned' if self.pinned else 'copied'}"
        )

    @property
    def advice(self) -> tuple[str, ...]:
        wanted = self.batches_wanted
        raise_it = f"set {SETTING} to {wanted} or more" if wanted else f"raise {SETTING}"
        if self.pinned:
            return (raise_it,)
        return (raise_it, "raise parallelism, or use a faster home", "put work on a file system with hard links")

    @property
    def setting(self) -> str | None:
        """The setting to change, as a line of configuration."""
        return f"{SETTING}={self.batches_wanted}" if self.batches_wanted else None

    @property
    def batches_wanted(self) -> int | None:
        """How many batches to retain for ample headroom; None when the pace is unknown."""
        if self.kept_s <= 0:
            return None
        factor = max(_PLENTY * self.needed_s / self.kept_s, _ENOUGH if self.vanished else 1.0)
        return math.ceil(self.batches_retained * factor)


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


class BatchPace:
    """How quickly batches follow each other, by the newest ones: as many as Spark keeps."""

    def __init__(self) -> None:
        # Replaced as a whole, so that any thread may read it.
        self._reached: tuple[tuple[BatchId, float], ...] = ()

    def reached(self, batch: BatchId, now: float, batches_retained: int) -> None:
        before = self._reached
        if before and batch <= before[-1][0]:
            before = ()  # another directory, which resumed at an older batch
        needed = next((n for n, (seen, _) in enumerate(before) if seen > batch - batches_retained), len(before))
        self._reached = (*before[max(0, needed - 1) :], (batch, now))

    def lifetime(self, batches_retained: int) -> float | None:
        """How many seconds this many batches take; None before two were seen."""
        reached = self._reached
        if len(reached) < 2:
            return None
        (first, begun), (last, ended) = reached[0], reached[-1]
        return (ended - begun) / (last - first) * batches_retained


class HeadroomAlarm:
    """Raised when headroom is tight, cleared when there is plenty."""

    def __init__(self) -> None:
        self._raised = False

    def judge(self, found: Headroom) -> RaiseAlarm | ClearAlarm | None:
        if found.tight and not self._raised:
            self._raised = True
            return RaiseAlarm(HEADROOM, "warning", found.cause, "; or ".join(found.advice))
        if found.plenty and self._raised:
            self._raised = False
            return ClearAlarm(HEADROOM, "Spark keeps the files of a batch long enough to copy them")
        return None
