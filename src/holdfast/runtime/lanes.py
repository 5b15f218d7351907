"""Threads for blocking work. A lane with one thread does its work in order and one at a time, so it needs no
locks. The lanes:

    journal     appends to the journal, and everything that must not run between two appends
    copy        planning and copying of shards
    publish     publishing to the sink
    query       starting and stopping the query
    look        checks the work directory for a new barrier, and whether the query still runs
    heartbeat   the heartbeat, and whether a newer run has claimed the job, at its own interval
    requests    checks for requests of commands
    collect     deletion of what retention dropped
    scrub       reads and verifies the home, in the background
    state_file  the state file on this host
    plans       plans of batches that went on without them
    kafka       what brokers are told and asked
    batches     what Spark says of finished batches
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from holdfast.job_log import about_the_same, log

DOING = {
    "journal": "a write to the journal",
    "copy": "copying to the home",
    "publish": "publishing to the sink",
    "query": "starting or stopping the query",
    "look": "looking at the work directory",
    "heartbeat": "the heartbeat",
    "requests": "looking for requests",
    "collect": "deleting from the home",
    "scrub": "reading back from the home",
    "state_file": "writing the state file",
    "plans": "writing plans of batches",
    "kafka": "asking Kafka's brokers",
    "batches": "asking Spark about its batches",
}
"""What a lane does, for messages."""

Lane = Literal[
    "journal",
    "copy",
    "publish",
    "query",
    "look",
    "heartbeat",
    "requests",
    "collect",
    "scrub",
    "state_file",
    "plans",
    "kafka",
    "batches",
]
Work = Callable[[], None]


class Lanes(Protocol):
    def submit(self, lane: Lane, work: Work) -> None:
        """Run `work` on the lane later. It reports its own result and does not raise."""

    def every(self, lane: Lane, seconds: float, work: Work) -> None:
        """Run `work` repeatedly on the lane's own thread, with this pause, until the lanes are closed. No other work
        delays it. It does not raise."""

    def busy_since(self) -> Mapping[Lane, float]:
        """For each busy lane, the monotonic time at which its oldest work in progress began. Any thread may call it."""


_LAST_WORD_S = 2.0
"""A disk may hang."""


class ThreadLanes:
    def __init__(self, copying: int) -> None:
        widths: dict[Lane, int] = {
            "journal": 1,
            "copy": copying,
            "publish": 1,
            "query": 1,
            "look": 1,
            "requests": 1,
            "collect": 1,
            "scrub": 1,
            "state_file": 1,
            "plans": 1,
            "kafka": 1,
            "batches": 1,
        }
        self._queues: dict[Lane, queue.SimpleQueue[Work | None]] = {lane: queue.SimpleQueue() for lane in widths}
        self._widths = widths
        self._closed = threading.Event()
        self._under_way: dict[int, tuple[Lane, float]] = {}
        """Work in progress, by its thread."""
        self._threads: dict[Lane, list[threading.Thread]] = {}
        for lane, width in widths.items():
            for number in range(width):
                name = f"holdfast-{lane}-{number}"
                thread = threading.Thread(target=about_the_same(self._serve), args=(lane,), name=name, daemon=True)
                self._threads.setdefault(lane, []).append(thread)
                thread.start()

    def submit(self, lane: Lane, work: Work) -> None:
        self._queues[lane].put(work)

    def every(self, lane: Lane, seconds: float, work: Work) -> None:
        def repeat() -> None:
            while not self._closed.wait(seconds):
                self._do(lane, work)

        threading.Thread(target=about_the_same(repeat), name=f"holdfast-{lane}", daemon=True).start()

    def busy_since(self) -> Mapping[Lane, float]:
        oldest: dict[Lane, float] = {}
        for lane, began in tuple(self._under_way.values()):
            oldest[lane] = min(began, oldest.get(lane, began))
        return oldest

    def close(self) -> None:
        """Let every thread end after its current work.

        The state file is beside work directories that the caller may remove now: its last word is waited for.
        """
        self._closed.set()
        for lane, width in self._widths.items():
            for _ in range(width):
                self._queues[lane].put(None)
        for thread in self._threads["state_file"]:
            thread.join(_LAST_WORD_S)

    def _serve(self, lane: Lane) -> None:
        while (work := self._queues[lane].get()) is not None:
            self._do(lane, work)

    def _do(self, lane: Lane, work: Work) -> None:
        thread = threading.get_ident()
        self._under_way[thread] = (lane, time.monotonic())  # noqa: TID251
        try:
            work()
        except Exception:
            log.exception("holdfast: internal error in lane %s", lane)
        finally:
            del self._under_way[thread]
