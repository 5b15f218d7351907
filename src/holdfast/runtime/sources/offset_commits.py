"""Commits the offsets of completed checkpoints to a consumer group, so that the usual tools show how far the job is.

They are advisory: recovery never reads them. Only the newest count, so those that could not be committed are replaced
by newer ones, or by older ones when the job went back. A failure is retried at growing intervals and harms nothing; one
that lasts is an alarm.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.checkpoint.spark_files import NotUnderstood
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors_and_reasons import message_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.reports.alarms import Alarms
from holdfast.runtime.sources.asking import OpenClients, by_brokers
from holdfast.sources.brokers import BrokersFailed, Refused
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Positions, least, positions_in

NOT_COMMITTED = "kafka_offsets_not_committed"
LASTING_S = 30.0
"""A failure that usually passes becomes an alarm after this long; any other with the second attempt."""
_RETRY_S, _RETRY_MOST_S = 1.0, 60.0
_PAUSE_S = 1.0
"""Between two commits, however short the batches are."""


@dataclass(frozen=True)
class _Reached:
    batch: BatchId
    directory: RunDirectory


class OffsetCommits:
    def __init__(
        self,
        *,
        group: str,
        inputs: Sequence[KafkaInput],
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
        still_owner: Callable[[], bool],
    ) -> None:
        self._group = group
        self._inputs = inputs
        self._alarms = alarms
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._still_owner = still_owner
        self._directory: RunDirectory | None = None
        self._wanted: _Reached | None = None
        self._tried: _Reached | None = None
        """The newest that was attempted."""
        self._under_way = False
        self._ending = False
        self._failures = 0
        self._failing_since = 0.0
        self._next_try = 0.0
        self._idle = threading.Event()
        self._idle.set()
        self._clients = OpenClients()
        self.committed: BatchId | None = None
        """The newest batch whose offsets the brokers have accepted."""

    # On the loop's thread.

    def resumed(self, durable: BatchId | None, directory: RunDirectory) -> None:
        """The query continues after this batch, maybe an older one than before."""
        self._directory, self._wanted, self.committed = directory, None, None
        if durable is not None:
            self._want(_Reached(durable, directory))

    def reached(self, batch: BatchId, directory: RunDirectory) -> None:
        """This batch is durable. Checkpoints may complete in another order than they began."""
        waiting = None if self._wanted is None else self._wanted.batch
        if directory is self._directory and all(known is None or batch > known for known in (self.committed, waiting)):
            self._want(_Reached(batch, directory))

    def poll(self, now: float) -> None:
        if self._wanted is not None and not self._under_way and now >= self._next_try:
            self._submit()

    def end(self, *, owned: bool) -> None:
        """Nothing is tried again from now on. What was not tried yet is tried once, if the job is still this run's and
        the brokers answered before."""
        self._ending = True
        if self._failures or not owned:
            self._wanted = None
            self._idle.set()
        elif not self._under_way:
            self._again()

    def _want(self, wanted: _Reached) -> None:
        self._wanted = wanted
        self.poll(self._clock.monotonic())

    def _submit(self) -> None:
        wanted = self._wanted
        assert wanted is not None
        self._under_way, self._tried = True, wanted
        self._idle.clear()
        self._lanes.submit("kafka", lambda: self._commit(wanted))

    def _succeeded(self, wanted: _Reached) -> None:
        self._ended(wanted, done=True)
        if wanted.directory is self._directory:
            self.committed = wanted.batch
        self._failures, self._next_try = 0, self._clock.monotonic() + _PAUSE_S
        self._alarms.clear(NOT_COMMITTED, f"the group {self._group} has the offsets of batch {wanted.batch}")
        self._again()

    def _failed(self, wanted: _Reached, error: BrokersFailed) -> None:
        self._ended(wanted, done=False)
        now = self._clock.monotonic()
        self._failing_since = self._failing_since if self._failures else now
        self._next_try = now + min(_RETRY_S * 2**self._failures, _RETRY_MOST_S)
        self._failures += 1
        lasts = now - self._failing_since >= LASTING_S if error.why.passes else self._failures > 1
        if lasts:
            message = f"{error.message}; the job itself is not affected, only what tools show of its lag is old"
            brief = None if NOT_COMMITTED not in self._alarms.active else f"still could not commit to {self._group}"
            self._alarms.raise_alarm(NOT_COMMITTED, "warning", message, error.hint, brief)
        else:
            log.info("%s; retrying in the background", error.message)
        self._again()

    def _gone(self, wanted: _Reached) -> None:
        """The next checkpoint brings newer ones."""
        self._ended(wanted, done=True)
        self._again()

    def _ended(self, wanted: _Reached, *, done: bool) -> None:
        self._under_way = False
        if done and self._wanted is wanted:
            self._wanted = None

    def _again(self) -> None:
        if self._wanted is None or (self._ending and self._wanted is self._tried):
            self._idle.set()
        elif self._ending:
            self._submit()
        else:
            self.poll(self._clock.monotonic())

    # On any thread.

    def settled_within(self, limit: float) -> bool:
        """After the end: whether nothing waits any more; waits this many seconds at most."""
        return self._idle.wait(max(0.0, limit))

    # On the lane.

    def _commit(self, wanted: _Reached) -> None:
        if not self._still_owner():
            self._post(lambda: self._gone(wanted))
            return
        try:
            data = wanted.directory.read(f"offsets/{wanted.batch}")
            for inputs in by_brokers(self._inputs):
                self._commit_at(inputs, data)
        except BrokersFailed as error:
            failure = error
            self._post(lambda: self._failed(wanted, failure))
        except FileNotFoundError as error:
            log.debug("the offsets of batch %s are not committed: %s", wanted.batch, error)
            self._post(lambda: self._gone(wanted))
        except NotUnderstood as error:
            unread = BrokersFailed(
                Refused.NOT_TRANSLATED, f"could not read the offsets of batch {wanted.batch}: {error}"
            )
            self._post(lambda: self._failed(wanted, unread))
        except Exception as error:
            unknown = BrokersFailed(Refused.OTHER, f"could not commit offsets: {message_of(error)}")
            self._post(lambda: self._failed(wanted, unknown))
        else:
            self._post(lambda: self._succeeded(wanted))

    def _commit_at(self, inputs: Sequence[KafkaInput], data: bytes) -> None:
        """These sources have the same brokers."""
        positions: Positions = least(positions_in(data, each.name) for each in inputs)
        if positions:
            with self._clients.of(inputs[0]) as brokers:
                brokers.commit(self._group, positions)
