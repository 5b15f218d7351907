"""Alarms: told to the log and to whoever the user named. An alarm that cannot be delivered never harms the pipeline."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from holdfast.coordination.commands import Severity
from holdfast.job_log import log
from holdfast.runtime.clock import Clock

_LEVELS = {"critical": logging.ERROR, "warning": logging.WARNING, "info": logging.INFO}


@dataclass(frozen=True)
class Alarm:
    job: str
    code: str
    severity: Severity
    message: str
    hint: str
    at: datetime
    cleared: bool = False


class Alarms:
    def __init__(self, job: str, receivers: tuple[Callable[[Alarm], None], ...], clock: Clock) -> None:
        self._job = job
        self._receivers = receivers
        self._clock = clock
        self.active: dict[str, Alarm] = {}

    def raise_alarm(self, code: str, severity: Severity, message: str, hint: str) -> None:
        alarm = Alarm(self._job, code, severity, message, hint, self._clock.wall())
        self.active[code] = alarm
        log.log(_LEVELS[severity], "%s. Try: %s", message, hint)
        self._deliver(alarm)

    def clear(self, code: str, message: str) -> None:
        if self.active.pop(code, None) is None:
            return
        log.info("alarm %s is over: %s", code, message)
        self._deliver(Alarm(self._job, code, "info", message, "", self._clock.wall(), cleared=True))

    def _deliver(self, alarm: Alarm) -> None:
        for receiver in self._receivers:
            try:
                receiver(alarm)
            except Exception as error:
                log.warning("alarm receiver %r failed: %s", receiver, error)
