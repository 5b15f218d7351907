"""What is asked of brokers, and how they answer. `kafka_client` implements it over the Python client."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from holdfast.sources.positions import Partition, Positions
from holdfast.sources.restorable import Kept


class Refused(Enum):
    """Why brokers did not do what they were asked. The value says what to do."""

    UNREACHABLE = "check that the brokers run and that this host reaches them"
    COORDINATOR = "check that the brokers run: one of them must coordinate the group"
    LEADER = "check that all brokers run: a partition has no leader now"
    LOGIN = "check the login in the kafka.sasl.… and kafka.ssl.… options of the reader"
    NOT_ALLOWED_GROUP = "allow the reader's principal to READ the group: kafka-acls.sh --add --operation Read --group"
    NOT_ALLOWED_TOPIC = "allow the reader's principal to DESCRIBE and READ the topic"
    HAS_MEMBERS = "stop the consumers of that group, or name a group of this job's own: --commit-offsets-to"
    NO_TOPIC = "create the topic again, or let the pipeline read another one"
    NOT_TRANSLATED = "give the reader options that the Python client understands, too"
    OTHER = "see Kafka's list of errors, and the brokers' log"

    @property
    def passes(self) -> bool:
        """It usually ends by itself."""
        return self in (Refused.UNREACHABLE, Refused.COORDINATOR, Refused.LEADER, Refused.OTHER)


class BrokersFailed(Exception):
    """The message says what was asked and why it failed; no secrets are in it."""

    def __init__(self, why: Refused, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.why = why
        self.message = message
        self.hint = hint or why.value


@dataclass(frozen=True)
class Range:
    earliest: int
    """The oldest record that the brokers still have."""
    latest: int
    """The next one to be written."""


@dataclass(frozen=True)
class Topic:
    id: str | None
    """Given when the topic was created; None before Kafka 2.8."""
    partitions: Mapping[int, Range]


@dataclass(frozen=True)
class Cluster:
    id: str | None
    topics: Mapping[str, Topic | None]
    """None for a topic that is not there."""


class Brokers(Protocol):
    """Each call returns after seconds at most, and raises `BrokersFailed`. None blocks for long what is not on a lane
    of its own."""

    def commit(self, group: str, positions: Positions) -> None:
        """Set the group's offsets, also to older ones."""

    def ends(self, partitions: Collection[Partition]) -> Positions:
        """The next record of each partition to be written, as the source sees it. Those that are gone are left out."""

    def begins(self, partitions: Collection[Partition]) -> Positions:
        """The oldest record of each that is kept. Those that are gone are left out."""

    def look(self, topics: Collection[str]) -> Cluster: ...

    def kept(self, partitions: Collection[Partition], now: float) -> Kept:
        """How long the records of these are kept, and which are."""

    def close(self) -> None: ...
