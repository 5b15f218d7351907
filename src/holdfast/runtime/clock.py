"""The only place where the runtime reads time."""

import os
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that never go backwards; for durations and deadlines."""

    def wall(self) -> datetime:
        """The time of day in UTC; for display and heartbeats. No decision depends on it."""


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()  # noqa: TID251

    def wall(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251


def process_age_s(started_ticks: int) -> float:
    """Seconds since this process started, in ticks since boot; 0 where that is unknown."""
    if not started_ticks:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK"))
