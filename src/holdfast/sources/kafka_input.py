"""One Kafka source of a query."""

from collections.abc import Callable
from dataclasses import dataclass, field

from holdfast.sources.brokers import Brokers


@dataclass(frozen=True)
class KafkaInput:
    name: str
    """In Spark's offset log: the one that the user gave, else the source's place, from 0."""
    servers: str
    subscribed: str
    """The topics as the reader names them: for messages."""
    topics: tuple[str, ...]
    """Those that the reader names; none where it gives a pattern."""
    fail_on_data_loss: bool
    min_partitions: int | None = field(default=None, kw_only=True)
    """So many tasks read it at least."""
    max_offsets: int | None = field(default=None, kw_only=True)
    """A batch reads no more."""
    open: Callable[[], Brokers] = field(repr=False, compare=False)
    """A client with the options of the reader. Raises `BrokersFailed`."""
