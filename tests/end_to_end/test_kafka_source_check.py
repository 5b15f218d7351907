"""Real brokers that no longer have what a checkpoint needs: the start is refused by name, before anything is claimed.

One story of one job. Each refused start costs a start of Spark: about a minute and a half in all.
"""

from pathlib import Path

import pytest

from holdfast.repository.entries import SkippedRecords
from tests.end_to_end.connectors import KafkaBroker
from tests.end_to_end.kafka_jobs import PARTS, Job, Topic, alarm_from, until

pytestmark = pytest.mark.long


def test_a_job_whose_topic_is_not_what_it_was_is_refused_by_name(tmp_path: Path) -> None:
    broker, other = KafkaBroker(tmp_path / "kafka"), KafkaBroker(tmp_path / "other")
    with broker.running():
        topic = Topic(broker.servers, "numbers")
        topic.send(range(40))
        job = Job(tmp_path / "job", {"kafka.bootstrap.servers": broker.servers, "subscribe": "numbers"})
        driver = job.start()
        until(lambda: job.visible() == list(range(40)))
        topic.add_partition()  # nothing is lost by that
        job.stop(driver)

        topic.send(range(40, 60))
        topic.delete_all_records()
        topic.send(range(60, 80))
        aged = job.refused()
        assert "needs numbers[0] from offset 20, and the oldest that the brokers still have is 30" in aged, aged
        assert "10 records are gone" in aged
        assert "failOnDataLoss" in aged

        driver = job.start(reader={"failOnDataLoss": "false"})
        message, _ = alarm_from(driver, "kafka_records_skipped", "began")
        assert message.count("10 records are gone") == 2
        until(lambda: job.visible() == [*range(40), *range(60, 80)])
        lost = {SkippedRecords("numbers", part, 10) for part in range(PARTS)}
        until(lambda: set(job.reported().kafka_skipped) == lost)
        topic.send(range(80, 82))
        until(lambda: {each for entry in job.state().completed.values() for each in entry.skipped} == lost)
        job.stop(driver)

        topic.delete()
        topic.create(PARTS + 1)
        topic.send(range(100, 200))  # more than there were: the offsets exist
        again = job.refused(reader={"failOnDataLoss": "false"})
        assert "it was deleted and created again" in again, again
        assert "--accept-source" in again

        with other.running():
            Topic(other.servers, "numbers").send(range(80))
            elsewhere = job.refused(reader={"kafka.bootstrap.servers": other.servers})
            assert "are of the Kafka cluster" in elsewhere, elsewhere

        driver = job.start(accept_source=True)
        until(lambda: job.visible() == [*range(40), *range(60, 82), *range(182, 200)])
        job.stop(driver)
    require_recorded(job)


def require_recorded(job: Job) -> None:
    """What the last run knew of its brokers is in its directory, and so in its checkpoints."""
    records = sorted((job.root / "work" / "records").glob("[0-9]*/query/*.json"))
    assert any(b'"kafka":{"0":{"cluster":"' in path.read_bytes() for path in records)
