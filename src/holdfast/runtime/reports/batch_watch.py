"""Collects what Spark says of finished batches, for the journal and the heartbeat. Display only: nothing depends on it.

Spark tells of a batch shortly after it committed it, and keeps only the newest. So it is asked after each commit, on a
lane of its own: a JVM that does not answer delays nothing else.
"""

from collections.abc import Callable, Sequence

from holdfast.identifiers import BatchId
from holdfast.repository import batch_spans
from holdfast.repository.entries import BatchSpan
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import BatchReports

_KEPT = 4 * batch_spans.KEPT
"""While no checkpoint completes."""
_TRIES = 25
"""Polls without an answer about a batch, after which the next commit is waited for."""


class BatchWatch:
    def __init__(self, ask: BatchReports, lanes: Lanes, post: Callable[[Callable[[], None]], None]) -> None:
        self._ask = ask
        self._lanes = lanes
        self._post = post
        self._told = self._seen = BatchId(-1)
        """The newest batch that Spark told of, and that was committed."""
        self._tries = 0
        self._asking = False
        self.latest: tuple[BatchSpan, ...] = ()
        """Those that no completed checkpoint has. Any thread may read it."""

    def upto(self, barrier: BatchId) -> tuple[BatchSpan, ...]:
        """For the entry of a checkpoint; from any thread."""
        return batch_spans.summed_up(batch_spans.upto(self.latest, barrier))

    # On the loop's thread.

    def resumed(self, barrier: BatchId | None) -> None:
        self._told = self._seen = BatchId(-1) if barrier is None else barrier

    def recorded(self, batches: Sequence[BatchSpan]) -> None:
        """The entry of a completed checkpoint has these. What Spark told of while that was appended is for the next."""
        if batches:
            self.latest = batch_spans.behind(self.latest, batches[-1].last)

    def poll(self, committed: BatchId | None) -> None:
        if committed is None or self._asking:
            return
        if committed > self._seen:
            self._seen, self._tries = committed, 0
        if self._told >= self._seen or self._tries >= _TRIES:
            return
        self._tries += 1
        self._asking = True
        after = self._told
        self._lanes.submit("batches", lambda: self._look(after))

    def _take(self, told: tuple[BatchSpan, ...]) -> None:
        self._asking = False
        new = batch_spans.behind(told, self._told)
        if new:
            self._told = new[-1].last
            self.latest = batch_spans.summed_up((*self.latest, *new), _KEPT)

    # On the lane.

    def _look(self, after: BatchId) -> None:
        told: tuple[BatchSpan, ...] = ()
        try:
            told = self._ask(after)
        finally:
            self._post(lambda: self._take(told))
