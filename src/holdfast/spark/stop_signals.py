"""SIGTERM and SIGINT, from the first instruction of a run to its last.

The first signal stops the job. During the start it unwinds the start, which leaves the job as it was; later it begins a
clean stop. A second signal kills the process.

Python runs the handler between any two instructions of the main thread. In a finalizer, or in a hook of `fork()`, an
exception goes no further: Python prints it and continues. The start is then unwound a moment later.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from holdfast.errors import StopAsked, StopOverdue
from holdfast.job_log import current_step
from holdfast.spark.hearing import STOPPING, Hearing
from holdfast.spark.uncaught import leave_at_once

_MOMENT_S = 0.01
"""Finalizers and hooks of `fork()` are over by then. If not, there is another moment."""
LEAVING_S = 10.0
"""After a stop ends, or its deadline passes, the process has this many more seconds to exit."""
_ACTIVE: list[stopping_on_signals] = []
"""At most one: a nested block uses the outer one."""


class stopping_on_signals:
    """Only in the main thread, where Python delivers signals; elsewhere it does nothing.

    After a signal, a start ends within `limit` seconds, even when it hangs. So does a process that ends with the block
    (`to_the_end`), whatever its threads wait for.
    """

    def __init__(self, limit: float, *, to_the_end: bool = False) -> None:
        self._limit = limit
        self._to_the_end = to_the_end
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}
        self._stop: Callable[[], None] = _unwind
        self._hearing: Hearing | None = None
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> stopping_on_signals:
        if threading.current_thread() is not threading.main_thread():
            return self
        if _ACTIVE:
            return _ACTIVE[0]
        tempfile.gettempdir()  # to find out it makes a file, which a signal in that moment would leave there
        _ACTIVE.append(self)
        self._hearing = Hearing(self._limit, self._overdue, _killed)
        for number in STOPPING:
            self._previous[number] = signal.signal(number, self._received)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._not_raised
        return self

    def __exit__(self, *exc: object) -> None:
        if self._hearing is None:
            return
        _ACTIVE.clear()
        sys.unraisablehook = self._unraisable
        for number, previous in self._previous.items():
            signal.signal(number, previous)
        if not (self._to_the_end and self._hearing.asked):
            self._hearing.close()

    def stop_with(self, stop: Callable[[], None]) -> None:
        """From now on a signal calls `stop`, which keeps the deadline and reports what is unfinished."""
        self._stop = stop
        if self._hearing is not None:
            self._hearing.limit = self._limit + LEAVING_S if self._to_the_end else float("inf")
        self.take_back()

    def take_back(self) -> None:
        for number in self._previous:
            signal.signal(number, self._received)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self._stop is _unwind and _in_logging(frame):
            self._receive_again()
            return
        for each in STOPPING:
            signal.signal(each, signal.SIG_DFL)
        self._stop()

    def _not_raised(self, unraisable: sys.UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, StopAsked):
            self._receive_again()
        else:
            self._unraisable(unraisable)

    def _receive_again(self) -> None:
        """A moment later, in the main thread, where this runs too."""
        assert self._hearing is not None
        self.take_back()
        self._hearing.expect_repeated()
        threading.Timer(_MOMENT_S, signal.pthread_kill, (threading.get_ident(), signal.SIGTERM)).start()

    def _overdue(self, number: int) -> None:
        error = StopOverdue(
            f"the process did not end within {self._limit:.0f} s after it was asked to: unfinished: {current_step()}",
            hint="start it again when that works: the next run resumes without loss; or allow more time: "
            "--stop-timeout 10m",
        )
        sys.stderr.write(f"holdfast: {error}\n")
        leave_at_once(error.exit_code)


def take_signals_back() -> None:
    """Spark installs its own SIGINT handler whenever it creates a context."""
    if _ACTIVE and threading.current_thread() is threading.main_thread():
        _ACTIVE[0].take_back()


def _in_logging(frame: FrameType | None) -> bool:
    """Whether a lock of `logging` may be about to be released, as in its hooks of `fork()`: it would stay locked."""
    return frame is not None and frame.f_globals.get("__name__") == "logging"


def _killed(number: int) -> None:
    os._exit(128 + number)


def _unwind() -> None:
    raise StopAsked
