"""A dead man's switch: a URL that is called while all is well. Whoever waits for the calls notices when they stop, also
when this process or its whole host is gone."""

import queue
import threading
from collections.abc import Callable

from holdfast.job_log import about_the_same, log
from holdfast.notifying.channels import NotDelivered, shown_url
from holdfast.runtime.clock import Clock

EVERY_S = 60.0
_HANGS_S = 30.0


def overdue(called_at: float | None, now: float) -> str | None:
    """Whether a receiver that was called at this time hangs."""
    if called_at is None or now - called_at < _HANGS_S:
        return None
    return f"it has not answered for {now - called_at:.0f} s"


class AliveCalls:
    """Calls the URL in a thread of its own, at most once in `EVERY_S`, and only when it is asked to."""

    def __init__(self, url: str, call: Callable[[str], None], clock: Clock) -> None:
        self._url = url
        self._call = call
        self._clock = clock
        self._wanted: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._next = 0.0
        self._called_at: float | None = None
        self._idle = threading.Event()
        self._idle.set()
        self._failure: str | None = None

    def __repr__(self) -> str:
        return shown_url(self._url)

    def all_is_well(self, now: float) -> None:
        """On the thread that decides: when it hangs, the calls stop."""
        if now < self._next or not self._idle.is_set():
            return
        self._next = now + EVERY_S
        self._idle.clear()
        if self._thread is None:
            self._thread = threading.Thread(target=about_the_same(self._serve), name="holdfast-alive", daemon=True)
            self._thread.start()
        self._wanted.put(True)

    def close(self) -> None:
        self._wanted.put(False)

    def wait_until_idle(self, limit: float) -> bool:
        """Until no call is wanted or under way; False after this many seconds."""
        return self._idle.wait(limit)

    def trouble(self, now: float) -> str | None:
        return overdue(self._called_at, now) or self._failure

    def _serve(self) -> None:
        while self._wanted.get():
            self._called_at = self._clock.monotonic()
            self._failure = self._called()
            self._called_at = None
            self._idle.set()

    def _called(self) -> str | None:
        """Why it failed."""
        try:
            self._call(self._url)
        except NotDelivered as error:
            log.warning("could not call %r: %s", self, error)
            return str(error)
        return None
