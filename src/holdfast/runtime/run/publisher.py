"""Publishes a checkpoint's output at the sink, and lets the sink forget what no checkpoint needs."""

from collections.abc import Callable

from holdfast.coordination.events import Event, OutputPublished, PublishFailed, RunFenced
from holdfast.errors import Fenced, HoldfastError
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.journal import Journal
from holdfast.runtime.errors_and_reasons import message_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.query.query_life import Happenings
from holdfast.sinks.protocol import Sink, Step


class Publisher:
    def __init__(
        self,
        *,
        sink: Sink | None,
        journal: Journal,
        published: BatchId | None,
        lanes: Lanes,
        post: Callable[[Event | Callable[[], Happenings]], None],
        step: Step,
    ) -> None:
        """`sink` is None when the query has its own writer. `published` is the newest batch that readers see now."""
        self._sink = sink
        self._journal = journal
        self._lanes = lanes
        self._post = post
        self._step = step
        self._forgotten: BatchId | None = None
        """The sink has been asked to forget batches up to here."""
        self.published = published
        self.busy = False

    # On the loop's thread.

    def shown(self, committed: BatchId | None) -> BatchId | None:
        """The newest batch that readers see. A writer of the user's own has shown each batch that Spark has
        committed."""
        return committed if self._sink is None else self.published

    def resumed_at(self, durable: BatchId | None) -> None:
        """The sink was brought to this barrier."""
        self.published = durable

    def publish(self, upto: BatchId, directory: RunDirectory) -> None:
        sink = self._sink
        if sink is None:
            self._post(OutputPublished(upto))
            return
        self.busy = True
        self._lanes.submit("publish", lambda: self._publish(sink, upto, directory))

    def forget_behind(self) -> None:
        """No checkpoint can rewind past the oldest one that is retained."""
        self._lanes.submit("journal", self._forget_behind)

    def _succeeded(self, upto: BatchId) -> Happenings:
        self.busy = False
        self.published = upto
        return (OutputPublished(upto),)

    def _failed(self, upto: BatchId, why: str) -> Happenings:
        self.busy = False
        log.warning("publishing up to batch %s failed, retrying later: %s", upto, why)
        return (PublishFailed(upto, why),)

    # On lanes.

    def _publish(self, sink: Sink, upto: BatchId, directory: RunDirectory) -> None:
        try:
            self._step("publish.begin")
            sink.publish(upto, directory.ledger())
            self._step("publish.done")
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
        except Exception as error:
            why = message_of(error)
            self._post(lambda: self._failed(upto, why))
        else:
            self._post(lambda: self._succeeded(upto))

    def _forget_behind(self) -> None:
        """On the journal lane, after the retirement that allows it."""
        sink, state = self._sink, self._journal.state
        barriers = [entry.barrier_batch_id for entry in state.retained() if entry.id not in state.abandoned]
        oldest = min(barriers, default=None)
        if sink is None or oldest is None or oldest == self._forgotten:
            return
        self._forgotten = oldest
        self._lanes.submit("publish", lambda: _forget(sink, oldest))


def _forget(sink: Sink, oldest: BatchId) -> None:
    try:
        sink.forget(oldest)
    except HoldfastError as error:
        log.debug("the sink's record of old batches stays: %s", error.message)
