"""systemd's watchdog: the thread that decides sends a keep-alive, and systemd restarts a process that sends none.

It is a datagram to the socket in NOTIFY_SOCKET, as in sd_notify(3). Sending never blocks: a datagram that cannot be
sent at once is dropped. During the start that thread does not exist yet; another one sends while the start makes
progress.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from holdfast.job_log import about_the_same, progress_count

START_STANDS_STILL_S = 1800.0
"""A start that logs no new step and restores no byte for this long hangs. Spark may need minutes to open a large
state."""


class Watchdog:
    """Sends nothing when systemd does not watch this process."""

    def __init__(self, address: str, interval: float) -> None:
        """`interval`: the minimum time between two keep-alives, in seconds."""
        self._address = address
        self.interval = interval
        self._said_at = float("-inf")

    @classmethod
    def of(cls, environment: Mapping[str, str], process: int) -> Watchdog:
        """The watchdog that systemd has configured for this process, not for a parent."""
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
