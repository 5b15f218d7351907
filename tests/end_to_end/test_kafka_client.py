"""What the client says of a real broker, without Spark: seconds, but for the broker's start."""

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from holdfast.identifiers import CheckpointId
from holdfast.sources.brokers import BrokersFailed, Range, Refused
from holdfast.sources.client_settings import client_settings
from holdfast.sources.kafka_client import KafkaClient
from holdfast.sources.positions import Partition
from holdfast.sources.restorable import TopicRetention, restorable
from tests.end_to_end.connectors import kafka_broker
from tests.end_to_end.kafka_jobs import Topic, until
from tests.end_to_end.test_kafka_offsets import no_stores
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

DAY = 86_400.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_broker(tmp_path_factory.mktemp("kafka") / "broker") as address:
        yield address


def client(servers: str, *, read_committed: bool = False) -> KafkaClient:
    return KafkaClient(client_settings({"kafka.bootstrap.servers": servers}, no_stores), read_committed=read_committed)


def create(servers: str, name: str, **config: str) -> Partition:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in config.items()}

    def created() -> bool:
        futures = admin.create_topics([NewTopic(name, 1, 1, config=settings)])
        return all(future.exception() is None for future in futures.values())

    until(created)
    return Partition(name, 0)


def test_cluster_topics_and_ranges_are_as_the_broker_has_them(servers: str) -> None:
    topic = Topic(servers, "ranges")
    topic.send(range(10))
    topic.delete_all_records()
    topic.send(range(4))
    found = client(servers).look(["ranges", "nowhere"])
    assert found.id
    assert found.topics["nowhere"] is None
    ranges = found.topics["ranges"]
    assert ranges is not None
    assert ranges.id
    assert ranges.partitions == {0: Range(5, 7), 1: Range(5, 7)}
    before = ranges.id
    topic.delete()
    topic.create()

    def id_now() -> str | None:
        try:
            found = client(servers).look(["ranges"]).topics["ranges"]
        except BrokersFailed as error:
            if error.why is not Refused.LEADER:
                raise
            return None
        return None if found is None else found.id

    until(lambda: id_now() not in (None, before))


def test_an_open_transaction_is_no_lag_for_who_reads_what_is_committed(servers: str) -> None:
    part = create(servers, "transactions")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    producer.produce(part.topic, "1", partition=0)
    assert producer.flush(PATIENCE) == 0
    until(lambda: client(servers).ends([part]) == {part: 1})
    assert client(servers, read_committed=True).ends([part]) == {part: 0}
    producer.commit_transaction(PATIENCE)
    until(lambda: client(servers, read_committed=True).ends([part]) == {part: 2})


def test_a_partition_that_is_not_there_has_no_end(servers: str) -> None:
    part = create(servers, "small")
    assert client(servers).ends([part, Partition("small", 7), Partition("nowhere", 0)]) == {part: 0}


def test_how_long_records_are_kept_is_known_from_when_they_were_written(servers: str) -> None:
    part = create(servers, "ageing", retention_ms=str(round(12 * DAY * 1000)))
    now = time.time()
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for days_ago in (10, 6, 3):
        producer.produce(part.topic, "x", partition=0, timestamp=round((now - days_ago * DAY) * 1000))
    assert producer.flush(PATIENCE) == 0
    kept = client(servers).kept([part], now)
    assert kept.retention == {"ageing": TopicRetention(12 * DAY, by_size=False, compacts=False)}
    ends = [restorable(CheckpointId(1), {part: at}, kept, now).until for at in range(4)]
    for until_then, days_left in zip(ends, (2, 6, 9, 12), strict=True):
        assert until_then is not None
        assert now + (days_left - 1) * DAY - 60 <= until_then <= now + days_left * DAY + 60


def test_topics_that_keep_by_size_or_by_key_are_told_apart(servers: str) -> None:
    sized = create(servers, "sized", retention_ms="-1", retention_bytes="1000000")
    keyed = create(servers, "keyed", cleanup_policy="compact")
    kept = client(servers).kept([sized, keyed], time.time())
    assert kept.retention == {
        "sized": TopicRetention(None, by_size=True, compacts=False),
        "keyed": TopicRetention(None, by_size=False, compacts=True),
    }
