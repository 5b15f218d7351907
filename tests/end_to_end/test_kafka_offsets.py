"""A real broker with logins: the group has the offsets of the checkpoints, whatever happens to broker and group.

One story, as each part needs the one before it; the job runs through all of it in one process.
"""

import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from holdfast.sources.brokers import BrokersFailed, Refused
from holdfast.sources.client_settings import KeyStore, Pem, client_settings
from holdfast.sources.kafka_client import KafkaClient
from holdfast.sources.positions import Partition
from tests.end_to_end.connectors import KafkaBroker
from tests.end_to_end.kafka_jobs import Job, Topic, alarm_from, until
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

SECRET = "pLanted-s3cret"
USERS = {"alice": SECRET, "bob": "bobs-secret"}
GROUP = "records-lag"
OUTAGE_S = float(os.environ.get("HOLDFAST_OUTAGE", "2"))


def reader(servers: str, user: str = "alice", password: str = SECRET) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


def no_stores(store: KeyStore) -> Pem:
    raise AssertionError(store)


def test_the_group_has_what_the_checkpoints_have(tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path / "kafka", USERS)
    with ExitStack() as life:
        life.enter_context(broker.running())
        topic = Topic(broker.servers, "numbers")
        topic.send(range(40))
        options = {**reader(broker.servers_with_login), "subscribe": "numbers"}
        job = Job(tmp_path / "job", options, commit_offsets_to=GROUP)
        driver = job.start()
        until(lambda: topic.committed(GROUP) == {Partition("numbers", 0): 20, Partition("numbers", 1): 20})

        life.close()  # the broker is away for a while
        life.enter_context(broker.running())
        topic.send(range(40, 60))
        until(lambda: topic.committed(GROUP) == topic.ends())
        assert topic.ends() == {Partition("numbers", 0): 30, Partition("numbers", 1): 30}

        member = Consumer({"bootstrap.servers": broker.servers, "group.id": GROUP, "enable.auto.commit": False})
        member.subscribe(["numbers"])
        until(lambda: member.poll(0.1) is None and bool(member.assignment()))
        driver.drain()
        topic.send(range(60, 80))
        message, hint = alarm_from(driver, "kafka_offsets_not_committed", "began")
        assert GROUP in message
        assert hint == Refused.HAS_MEMBERS.value
        sent = runs_on_while_commits_fail(job, topic, member, 80)
        assert topic.committed(GROUP) != topic.ends()
        member.close()
        alarm_from(driver, "kafka_offsets_not_committed", "over")
        until(lambda: topic.committed(GROUP) == topic.ends())

        topic.send(range(sent, sent + 20))
        until(lambda: len(job.visible()) == sent + 20)
        job.stop(driver)
        assert topic.committed(GROUP) == job.newest_offsets() == topic.ends()
        assert job.visible() == list(range(sent + 20))
        require_no_secret(job)

        require_logins_are_named(broker)


def runs_on_while_commits_fail(job: Job, topic: Topic, member: Consumer, sent: int) -> int:
    """For as long as the outage lasts, every batch becomes visible. How many numbers there are now."""
    ends = time.monotonic() + OUTAGE_S
    while time.monotonic() < ends:
        topic.send(range(sent, sent + 2))
        sent += 2
        until_visible(job, sent)
        member.poll(0.1)  # it stays a member
    return sent


def until_visible(job: Job, count: int) -> None:
    until(lambda: len(job.visible()) == count)


def require_no_secret(job: Job) -> None:
    files = [path for path in job.root.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def require_logins_are_named(broker: KafkaBroker) -> None:
    def client(user: str, password: str, timeout: float = PATIENCE) -> KafkaClient:
        options = reader(broker.servers_with_login, user, password)
        return KafkaClient(client_settings(options, no_stores), timeout=timeout)

    with pytest.raises(BrokersFailed) as wrong:
        # Tried again and again until then, and what was said last is told.
        client("alice", "wr0ng-s3cret", timeout=5).commit("x", {Partition("numbers", 0): 1})
    assert wrong.value.why is Refused.LOGIN, wrong.value.message
    assert "wr0ng-s3cret" not in wrong.value.message
    with pytest.raises(BrokersFailed) as forbidden:
        client("bob", "bobs-secret").commit("x", {Partition("numbers", 0): 1})
    assert forbidden.value.why in (Refused.NOT_ALLOWED_GROUP, Refused.NOT_ALLOWED_TOPIC), forbidden.value.message
    with pytest.raises(BrokersFailed) as missing:
        client("alice", SECRET).commit("x", {Partition("nowhere", 0): 1})
    assert missing.value.why is Refused.NO_TOPIC, missing.value.message
