"""Handles signals at once, whatever the main thread is doing.

Python calls signal handlers in the main thread, between two bytecode instructions. A main thread that waits for a
frozen disk or a server that does not answer never runs them. But the interpreter writes a byte for each signal at once;
a separate thread reads those bytes here, and acts when the main thread does not.
"""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable

from holdfast.job_log import about_the_same

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Hearing:
    """After the first SIGTERM or SIGINT the main thread has `limit` seconds; then `overdue` is called with the signal's
    number. A further signal in that time calls `again`. Create and close it in the main thread."""

    def __init__(self, limit: float, overdue: Callable[[int], None], again: Callable[[int], None]) -> None:
        self.limit = limit
        self.asked = False
        self._repeated = 0
        self._overdue = overdue
        self._again = again
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._before = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=about_the_same(self._listen), name="holdfast-signals", daemon=True).start()

    def expect_repeated(self) -> None:
        """The next signal repeats the first one: it is no further one."""
        self._repeated += 1

    def close(self) -> None:
        try:
            signal.set_wakeup_fd(self._before)
        except (ValueError, OSError):  # its owner, perhaps an asyncio loop, has closed it in the meantime
            signal.set_wakeup_fd(-1)
        self._writing.close()

    def _listen(self) -> None:
        with self._reading:
            first = self._next(None)
            if first is None:
                return
            self.asked = True
            asked_at = time.monotonic()
            while (left := asked_at + self.limit - time.monotonic()) > 0:
                # In short waits: the limit may change meanwhile.
                try:
                    second = self._next(min(left, 0.5))
                except TimeoutError:
                    continue
                if second is not None:
                    self._again(second)
                return
            self._overdue(first)

    def _next(self, limit: float | None) -> int | None:
        """The next signal that asks to stop; None when this is closed."""
        self._reading.settimeout(limit)
        while data := self._reading.recv(1):
            if data[0] not in STOPPING:
                continue
            if self._repeated:
                self._repeated -= 1
                continue
            return data[0]
        return None
