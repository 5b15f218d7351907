"""Questions to the brokers: asked on the lane, one at a time of each kind, over clients that stay open."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from holdfast.runtime.errors_and_reasons import message_of
from holdfast.runtime.lanes import Lane, Lanes
from holdfast.sources.brokers import Brokers, BrokersFailed
from holdfast.sources.kafka_input import KafkaInput

_Answer = TypeVar("_Answer")


class Question:
    """Used on the loop's thread only; both callbacks run there, too."""

    def __init__(self, lanes: Lanes, post: Callable[[Callable[[], None]], None], lane: Lane = "kafka") -> None:
        self._lanes = lanes
        self._lane = lane
        self._post = post
        self.under_way = False

    def ask(
        self, work: Callable[[], _Answer], answered: Callable[[_Answer], None], failed: Callable[[str], None]
    ) -> None:
        """Run `work` on the lane; `failed` receives why there is no answer."""
        self.under_way = True
        self._lanes.submit(self._lane, lambda: self._run(work, answered, failed))

    def _run(
        self, work: Callable[[], _Answer], answered: Callable[[_Answer], None], failed: Callable[[str], None]
    ) -> None:
        try:
            answer = work()
        except Exception as error:
            why = error.message if isinstance(error, BrokersFailed) else message_of(error)
            self._post(lambda: self._end(lambda: failed(why)))
        else:
            self._post(lambda: self._end(lambda: answered(answer)))

    def _end(self, told: Callable[[], None]) -> None:
        self.under_way = False
        told()


class OpenClients:
    """One per address of brokers. Used on the lane only."""

    def __init__(self) -> None:
        self._open: dict[str, Brokers] = {}

    @contextmanager
    def of(self, source: KafkaInput) -> Iterator[Brokers]:
        """A failure closes the client: a new one asks everything anew, addresses, tokens, the group's coordinator."""
        brokers = self._open[source.servers] = self._open.get(source.servers) or source.open()
        try:
            yield brokers
        except BrokersFailed:
            self._open.pop(source.servers).close()
            raise


def by_brokers(inputs: Sequence[KafkaInput]) -> list[list[KafkaInput]]:
    """Sources with the same brokers together."""
    servers = dict.fromkeys(each.servers for each in inputs)
    return [[each for each in inputs if each.servers == address] for address in servers]
