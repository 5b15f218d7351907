"""Asks real brokers, over confluent-kafka. The only module that imports it, and only when it is used.

librdkafka connects again by itself, at growing intervals. It writes no log of its own here: what it has to say about
the last failure goes into the error, without the values of secret options.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from holdfast.errors import InvalidSettings
from holdfast.sources.brokers import BrokersFailed, Cluster, Range, Refused, Topic
from holdfast.sources.client_settings import ClientSettings
from holdfast.sources.positions import Partition, Positions
from holdfast.sources.restorable import MOMENTS, Kept, TopicRetention, moments

TIMEOUT_S = 10.0
"""Of one request."""
_MARGIN_S = 2.0
_SETTINGS = {
    "log_level": 0,
    "client.id": "holdfast",
    "reconnect.backoff.ms": 500,
    "reconnect.backoff.max.ms": 10_000,
    "socket.keepalive.enable": True,
}
_REASONS = {
    "_AUTHENTICATION": Refused.LOGIN,
    "_SSL": Refused.LOGIN,
    "SASL_AUTHENTICATION_FAILED": Refused.LOGIN,
    "GROUP_AUTHORIZATION_FAILED": Refused.NOT_ALLOWED_GROUP,
    "TOPIC_AUTHORIZATION_FAILED": Refused.NOT_ALLOWED_TOPIC,
    "CLUSTER_AUTHORIZATION_FAILED": Refused.NOT_ALLOWED_TOPIC,
    "UNKNOWN_MEMBER_ID": Refused.HAS_MEMBERS,
    "NON_EMPTY_GROUP": Refused.HAS_MEMBERS,
    "ILLEGAL_GENERATION": Refused.HAS_MEMBERS,
    "REBALANCE_IN_PROGRESS": Refused.HAS_MEMBERS,
    "UNKNOWN_TOPIC_OR_PART": Refused.NO_TOPIC,
    "UNKNOWN_TOPIC_ID": Refused.NO_TOPIC,
    "_UNKNOWN_TOPIC": Refused.NO_TOPIC,
    "_UNKNOWN_PARTITION": Refused.NO_TOPIC,
    "NOT_COORDINATOR": Refused.COORDINATOR,
    "COORDINATOR_NOT_AVAILABLE": Refused.COORDINATOR,
    "COORDINATOR_LOAD_IN_PROGRESS": Refused.COORDINATOR,
    "_WAIT_COORD": Refused.COORDINATOR,
    "NOT_LEADER_FOR_PARTITION": Refused.LEADER,
    "LEADER_NOT_AVAILABLE": Refused.LEADER,
    "OFFSET_NOT_AVAILABLE": Refused.LEADER,
    "_TIMED_OUT": Refused.UNREACHABLE,
    "_TRANSPORT": Refused.UNREACHABLE,
    "_ALL_BROKERS_DOWN": Refused.UNREACHABLE,
    "_RESOLVE": Refused.UNREACHABLE,
    "REQUEST_TIMED_OUT": Refused.UNREACHABLE,
}
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic that was created before topics had ids."""
_T = TypeVar("_T")


def require_client() -> None:
    """Raises `InvalidSettings` where the Python client is missing."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError as error:
        raise InvalidSettings(
            f"could not load the client for Kafka: {error}", hint="pip install 'holdfast-spark[kafka]'"
        ) from error


def is_installed() -> bool:
    try:
        require_client()
    except InvalidSettings:
        return False
    return True


class KafkaClient:
    def __init__(self, settings: ClientSettings, *, read_committed: bool = False, timeout: float = TIMEOUT_S) -> None:
        """Connects to nobody yet. Raises `BrokersFailed` when librdkafka does not accept the settings."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        self._settings = settings
        self._timeout = timeout
        self._read_committed = read_committed
        self._said: list[Any] = []
        values: dict[str, Any] = {**settings.values, **_SETTINGS, "error_cb": self._said.append}
        if settings.iam is not None:
            values["oauth_cb"] = _iam_token(settings.iam, settings.values["bootstrap.servers"])
        try:
            self._admin = AdminClient(values)
        except (KafkaException, ValueError, TypeError) as error:
            raise BrokersFailed(
                Refused.NOT_TRANSLATED, f"the client did not accept the reader's options: {self._plain(str(error))}"
            ) from None
        if "sasl.mechanism" in settings.values:
            self._admin.poll(0)  # the first token is asked for here

    def commit(self, group: str, positions: Positions) -> None:
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        doing = f"commit offsets to the group {group}"
        wanted = [TopicPartition(partition.topic, partition.number, at) for partition, at in sorted(positions.items())]
        request = ConsumerGroupTopicPartitions(group, wanted)
        futures = self._asked(doing, lambda: self._admin.alter_consumer_group_offsets([request], **self._limits()))
        for answered in self._answer(doing, next(iter(futures.values()))).topic_partitions:
            if answered.error is not None:
                raise self._failed(f"{doing}: {answered.topic}[{answered.partition}]", answered.error)

    def ends(self, partitions: Collection[Partition]) -> Positions:
        return self._offsets(partitions, "latest", read_committed=self._read_committed)

    def begins(self, partitions: Collection[Partition]) -> Positions:
        return self._offsets(partitions, "earliest")

    def look(self, topics: Collection[str]) -> Cluster:
        from confluent_kafka import TopicCollection

        doing = "ask the brokers about the cluster"
        cluster = self._answer(doing, self._asked(doing, lambda: self._admin.describe_cluster(**self._limits())))
        names = sorted(topics)
        described: Mapping[str, Any] = {}
        if names:
            about = TopicCollection(names)
            described = self._asked(doing, lambda: self._admin.describe_topics(about, **self._limits()))
        found = {name: self._described(name, future) for name, future in described.items()}
        partitions = [
            Partition(name, each.id) for name, topic in found.items() if topic is not None for each in topic.partitions
        ]
        earliest, latest = self._offsets(partitions, "earliest"), self._offsets(partitions, "latest")
        return Cluster(
            cluster.cluster_id or None,
            {name: None if topic is None else _topic(name, topic, earliest, latest) for name, topic in found.items()},
        )

    def kept(self, partitions: Collection[Partition], now: float) -> Kept:
        retention = self._retention({partition.topic for partition in partitions})
        earliest = self._offsets(partitions, "earliest")
        latest = self._offsets(partitions, "latest")
        by_partition = {part: moments(now, retention[part.topic]) for part in earliest if part.topic in retention}
        written: dict[Partition, list[tuple[float, int]]] = {part: [] for part in by_partition}
        for number in range(MOMENTS + 1):
            asked = {part: times[number] for part, times in by_partition.items() if times}
            for part, at in self._first_since(asked).items():
                written[part].append((asked[part], latest.get(part, at) if at < 0 else at))
        return Kept(retention, earliest, written)

    def close(self) -> None:
        """The connections go with the object."""
        del self._admin

    # --- requests ---

    def _offsets(self, partitions: Collection[Partition], which: str, *, read_committed: bool = False) -> Positions:
        from confluent_kafka import IsolationLevel, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        if not partitions:
            return {}
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        wanted = {TopicPartition(*partition): getattr(OffsetSpec, which)() for partition in partitions}
        doing = f"ask the brokers for the {which} offsets"
        futures = self._asked(doing, lambda: self._admin.list_offsets(wanted, isolation_level=level, **self._limits()))
        found = {}
        for asked, future in futures.items():
            answer = self._answer_or_none(f"{doing} of {asked.topic}[{asked.partition}]", future)
            if answer is not None:
                found[Partition(asked.topic, asked.partition)] = int(answer.offset)
        return found

    def _first_since(self, times: Mapping[Partition, float]) -> Positions:
        """The first record of each partition that is not older; -1 where there is none."""
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        if not times:
            return {}
        wanted = {TopicPartition(*part): OffsetSpec.for_timestamp(round(at * 1000)) for part, at in times.items()}
        doing = "ask the brokers for offsets by time"
        futures = self._asked(doing, lambda: self._admin.list_offsets(wanted, **self._limits()))
        answers = {asked: self._answer_or_none(doing, future) for asked, future in futures.items()}
        return {
            Partition(asked.topic, asked.partition): int(found.offset)
            for asked, found in answers.items()
            if found is not None
        }

    def _retention(self, topics: Collection[str]) -> Mapping[str, TopicRetention]:
        from confluent_kafka.admin import ConfigResource

        if not topics:
            return {}
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(topics)]
        doing = "ask the brokers how long they keep records"
        futures = self._asked(doing, lambda: self._admin.describe_configs(wanted, **self._limits()))
        answers = {resource.name: self._answer_or_none(doing, future) for resource, future in futures.items()}
        return {name: _retention_of(found) for name, found in answers.items() if found is not None}

    def _described(self, name: str, future: Any) -> Any:
        return self._answer_or_none(f"ask the brokers about the topic {name}", future)

    def _limits(self) -> dict[str, float]:
        return {"request_timeout": self._timeout}

    def _asked(self, doing: str, ask: Callable[[], _T]) -> _T:
        from confluent_kafka import KafkaException

        self._said.clear()
        try:
            return ask()
        except (KafkaException, ValueError, TypeError) as error:
            raise BrokersFailed(Refused.OTHER, f"could not {doing}: {self._plain(str(error))}") from None

    def _answer(self, doing: str, future: Any) -> Any:
        from concurrent.futures import TimeoutError as Late

        from confluent_kafka import KafkaException

        try:
            return future.result(self._timeout + _MARGIN_S)
        except Late:
            raise BrokersFailed(Refused.UNREACHABLE, f"could not {doing}: the brokers did not answer") from None
        except KafkaException as error:
            raise self._failed(doing, error.args[0]) from None

    def _answer_or_none(self, doing: str, future: Any) -> Any:
        """None for a topic or partition that is not there."""
        try:
            return self._answer(doing, future)
        except BrokersFailed as error:
            if error.why is Refused.NO_TOPIC:
                return None
            raise

    def _failed(self, doing: str, error: Any) -> BrokersFailed:
        reason = _REASONS.get(error.name(), Refused.OTHER)
        texts = [error.str()]
        if reason is Refused.UNREACHABLE:
            self._admin.poll(0)  # lets the client tell why it is not connected
            said = _worst(self._said)
            if said is not None:
                texts.append(said.str())
                if _REASONS.get(said.name()) is Refused.LOGIN:
                    reason = Refused.LOGIN
        return BrokersFailed(reason, f"could not {doing}: {self._plain('; '.join(texts))}")

    def _plain(self, text: str) -> str:
        return self._settings.without_secrets(text)


def _worst(said: Iterable[Any]) -> Any:
    """A failed login explains more than a connection that is down."""

    def rank(error: Any) -> tuple[bool, bool]:
        return _REASONS.get(error.name()) is not Refused.LOGIN, error.name() == "_ALL_BROKERS_DOWN"

    return min(said, key=rank, default=None)


def _topic(name: str, found: Any, earliest: Positions, latest: Positions) -> Topic:
    ranges = {
        partition.number: Range(at, latest[partition])
        for partition, at in earliest.items()
        if partition.topic == name and partition in latest
    }
    return Topic(None if str(found.topic_id) == _NO_ID else str(found.topic_id), ranges)


def _retention_of(settings: Mapping[str, Any]) -> TopicRetention:
    values = {name: str(entry.value) for name, entry in settings.items()}
    policy, age = values.get("cleanup.policy", "delete"), int(values.get("retention.ms", "-1"))
    deletes = "delete" in policy
    return TopicRetention(
        seconds=age / 1000 if deletes and age >= 0 else None,
        by_size=deletes and int(values.get("retention.bytes", "-1")) >= 0,
        compacts="compact" in policy,
    )


def _iam_token(options: Mapping[str, str], servers: str) -> Callable[[str], tuple[str, float]]:
    """Amazon's login for MSK, with the credentials of this process, or the profile or role in the options."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Provider
    except ImportError as error:
        raise BrokersFailed(
            Refused.NOT_TRANSLATED,
            f"could not load Amazon's login for MSK: {error}",
            "pip install aws-msk-iam-sasl-signer-python",
        ) from None
    region = region_of(servers)

    def token(_: str) -> tuple[str, float]:
        if "awsRoleArn" in options:
            name = options.get("awsRoleSessionName", "holdfast")
            made, until = Provider.generate_auth_token_from_role_arn(region, options["awsRoleArn"], name)
        elif "awsProfileName" in options:
            made, until = Provider.generate_auth_token_from_profile(region, options["awsProfileName"])
        else:
            made, until = Provider.generate_auth_token(region)
        return made, until / 1000

    return token


def region_of(servers: str) -> str:
    """`b-1.name.abc.c2.kafka.eu-west-1.amazonaws.com:9098` is in eu-west-1."""
    host = servers.split(",")[0].rpartition(":")[0]
    before, kafka, after = host.partition(".kafka.") if ".kafka." in host else host.partition(".kafka-serverless.")
    if not kafka or "." not in after:
        raise BrokersFailed(
            Refused.NOT_TRANSLATED,
            f"the login AWS_MSK_IAM needs a region, and {before} names none",
            "give the brokers by the names that MSK gave them",
        )
    return after.partition(".")[0]
