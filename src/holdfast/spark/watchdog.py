"""systemd's watchdog: the thread that decides says that it lives, and a supervisor that hears nothing starts it anew.

A datagram to the socket in NOTIFY_SOCKET, as sd_notify(3) sends it. Nobody waits for it: what cannot be sent at once is
not sent. While a run starts there is no such thread yet; then it is said as long as the start gets on.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from holdfast.job_log import about_the_same, progress_count

START_STANDS_STILL_S = 1800.0
"""A start that says nothing new and restores no byte for so long hangs. Much state takes Spark minutes to open."""


class Watchdog:
    """Says nothing when nobody watches."""

    def __init__(self, address: str, interval: float) -> None:
        """`interval`: how often it is said, at most."""
        self._address = address
        self.interval = interval
        self._said_at = float("-inf")

    @classmethod
    def of(cls, environment: Mapping[str, str], process: int) -> Watchdog:
        """The one that systemd has set for this process, and not for one above it."""
        address, limit = environment.get("NOTIFY_SOCKET", ""), environment.get("WATCHDOG_USEC", "")
        meant = environment.get("WATCHDOG_PID", str(process)) == str(process)
        if not (address.startswith(("/", "@")) and limit.isdecimal() and int(limit) > 0 and meant):
            return cls("", 1.0)
        return cls(f"\0{address[1:]}" if address.startswith("@") else address, int(limit) / 1_000_000 / 4)

    def alive(self) -> None:
        now = time.monotonic()
        if self._address and now - self._said_at >= self.interval:
            self._said_at = now
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.setblocking(False)
                sending.sendto(b"WATCHDOG=1", self._address)

    @contextmanager
    def while_it_starts(self) -> Iterator[None]:
        if not self._address:
            yield
            return
        over = threading.Event()

        def say() -> None:
            seen, moved_at = progress_count(), time.monotonic()
            while True:
                if progress_count() != seen:
                    seen, moved_at = progress_count(), time.monotonic()
                if time.monotonic() - moved_at < START_STANDS_STILL_S:
                    self.alive()
                if over.wait(self.interval):
                    return

        saying = threading.Thread(target=about_the_same(say), name="holdfast-starting", daemon=True)
        saying.start()
        try:
            yield
        finally:
            over.set()
            saying.join()
