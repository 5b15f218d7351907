"""SIGTERM and SIGINT, from the first instruction of a run to its last.

The first one stops the job: by unwinding while it starts, which leaves the job as it was, by a clean stop when it runs.
A second one is for the impatient and kills.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from holdfast.errors import StopAsked

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class stopping_on_signals:
    """Only in the main thread, where Python delivers signals; elsewhere it does nothing."""

    def __init__(self) -> None:
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._stop: Callable[[], None] = _unwind

    def __enter__(self) -> stopping_on_signals:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                self._previous[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def stop_with(self, stop: Callable[[], None]) -> None:
        """From now on this is how to stop. Takes the signals back from Spark, which has put a handler of its own."""
        self._stop = stop
        for number in self._previous:
            signal.signal(number, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        self._stop()


def _unwind() -> None:
    raise StopAsked
