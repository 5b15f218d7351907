"""Where blocking work runs. A lane with one thread does its work in order and one at a time; that is what other
programs use locks for. The lanes:

    journal     appends to the journal, and whatever must not happen between two of them
    copy        planning and copying of shards
    publish     the sink's publications
    query       starting and stopping the query
    heartbeat   the heartbeat and the look whether a newer run has claimed the job
    collect     deletion of what retention gave up
    scrub       reading back what the home holds, in the background
"""

import queue
import threading
from collections.abc import Callable
from typing import Literal, Protocol

from holdfast.job_log import about_the_same, log

Lane = Literal["journal", "copy", "publish", "query", "heartbeat", "collect", "scrub"]
Work = Callable[[], None]


class Lanes(Protocol):
    def submit(self, lane: Lane, work: Work) -> None:
        """Run `work` on the lane, some time later. It reports by itself and does not raise."""


class ThreadLanes:
    def __init__(self, copying: int) -> None:
        widths: dict[Lane, int] = {
            "journal": 1,
            "copy": copying,
            "publish": 1,
            "query": 1,
            "heartbeat": 1,
            "collect": 1,
            "scrub": 1,
        }
        self._queues: dict[Lane, queue.SimpleQueue[Work | None]] = {lane: queue.SimpleQueue() for lane in widths}
        self._widths = widths
        for lane, width in widths.items():
            for number in range(width):
                name = f"holdfast-{lane}-{number}"
                threading.Thread(target=about_the_same(self._serve), args=(lane,), name=name, daemon=True).start()

    def submit(self, lane: Lane, work: Work) -> None:
        self._queues[lane].put(work)

    def close(self) -> None:
        """Let every thread end after the work it has."""
        for lane, width in self._widths.items():
            for _ in range(width):
                self._queues[lane].put(None)

    def _serve(self, lane: Lane) -> None:
        while (work := self._queues[lane].get()) is not None:
            try:
                work()
            except Exception:
                log.exception("holdfast: internal error in lane %s", lane)
