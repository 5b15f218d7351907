"""The only place where the runtime reads time."""

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
