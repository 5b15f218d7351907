"""Compares how long Spark keeps a barrier's files with how long a checkpoint needs them, and warns when the margin is
small."""

from collections.abc import Callable

from holdfast.coordination.commands import RaiseAlarm
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.headroom import BatchPace, Headroom, HeadroomAlarm
from holdfast.coordination.history import CheckpointRecord
from holdfast.coordination.lifecycle import Phase
from holdfast.identifiers import BatchId
from holdfast.runtime.clock import Clock
from holdfast.runtime.reports.alarms import Alarms

_UNTIL_COPIED = (Phase.STARTING, Phase.PLANNING, Phase.COPYING)


class HeadroomWatch:
    def __init__(self, batches_retained: Callable[[], int | None], clock: Clock, alarms: Alarms) -> None:
        self._batches_retained = batches_retained
        self._clock = clock
        self._alarms = alarms
        self._pace = BatchPace()
        self._alarm = HeadroomAlarm()

    # On the loop's thread.

    def reached(self, barrier: BatchId) -> None:
        if retained := self._batches_retained():
            self._pace.reached(barrier, self._clock.monotonic(), retained)

    def ended(self, record: CheckpointRecord, pinned_after: float | None, can_pin: bool) -> None:
        """`pinned_after` is None when nothing was pinned: the file system has no links, or there was no new file."""
        vanished = record.failure is not None and record.failure.reason is FailureReason.FILES_VANISHED
        if record.failure is not None and not vanished:
            return
        copied_after = sum(seconds for phase, seconds in record.phases if phase in _UNTIL_COPIED)
        found = self.measured(copied_after if pinned_after is None else pinned_after, can_pin, vanished)
        match self._alarm.judge(found) if found else None:
            case RaiseAlarm(code, severity, message, hint):
                self._alarms.raise_alarm(code, severity, message, hint)
            case None:
                pass
            case over:
                self._alarms.clear(over.code, over.message)

    # On any thread.

    def measured(self, needed_s: float, pinned: bool, vanished: bool = False) -> Headroom | None:
        """None when Spark's setting or the pace of the batches is unknown."""
        retained = self._batches_retained()
        kept_s = self._pace.lifetime(retained) if retained else None
        if retained is None or kept_s is None:
            return None
        return Headroom(needed_s, kept_s, retained, pinned, vanished)
