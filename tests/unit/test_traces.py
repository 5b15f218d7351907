"""A checkpoint as a trace, at a receiver that decodes OTLP."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.history import CheckpointRecord, FailureRecord, ShardRecord
from holdfast.coordination.lifecycle import Phase
from holdfast.errors import InvalidSettings
from holdfast.identifiers import BatchId, CheckpointId, ShardId, Ticket
from holdfast.monitoring.traces import Traces
from holdfast.settings import Settings
from tests.patience import PATIENCE
from tests.stores.processes import free_port
from tests.unit.otlp_receiver import OtlpReceiver, facts

AT = datetime(2026, 11, 18, 9, 41, 12, tzinfo=UTC)
NS = int(AT.timestamp()) * 10**9
RECORD = CheckpointRecord(
    ticket=Ticket(1),
    id=CheckpointId(7),
    kind="checkpoint",
    name=None,
    barrier=BatchId(42),
    triggered_at=100.0,
    ended_at=103.0,
    phases=((Phase.STARTING, 0.25), (Phase.PLANNING, 0.25), (Phase.COPYING, 2.0), (Phase.SEALING, 0.5)),
    shards=2,
    shards_acknowledged=2,
    bytes_total=1000,
    bytes_new=300,
    files=9,
    objects_written=3,
    slowest=(
        ShardRecord(ShardId("state/0/1"), 2.0, 900, 290, 7, "exec-3"),
        ShardRecord(ShardId("control"), 0.5, 100, 10, 2),
    ),
    failure=None,
)


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    made = OtlpReceiver()
    yield made
    made.close()


def sent(receiver: OtlpReceiver, record: CheckpointRecord) -> None:
    traces = Traces(receiver.url, "orders")
    traces.checkpoint(record, AT)
    traces.close(PATIENCE)


def test_a_checkpoint_is_a_trace_of_its_phases_and_shards(receiver: OtlpReceiver) -> None:
    sent(receiver, RECORD)
    root = receiver.wait_for("checkpoint")
    assert (root.start_time_unix_nano, root.end_time_unix_nano) == (NS, NS + 3 * 10**9)
    assert not root.parent_span_id
    assert facts(root)["holdfast.checkpoint"] == 7
    assert facts(root)["holdfast.batch"] == 42
    phases = receiver.below(root)
    assert [span.name for span in phases] == ["starting", "planning", "copying", "sealing"]
    assert [span.start_time_unix_nano - NS for span in phases] == [0, 250_000_000, 500_000_000, 2_500_000_000]
    shards = receiver.below(phases[2])
    assert [span.name for span in shards] == ["shard control", "shard state/0/1"]
    assert shards[1].end_time_unix_nano == phases[2].end_time_unix_nano
    assert facts(shards[1])["host.name"] == "exec-3"
    assert "host.name" not in facts(shards[0])
    assert {span.trace_id for span in receiver.spans} == {root.trace_id}
    assert receiver.resources[0]["service.name"] == "holdfast"
    assert receiver.resources[0]["holdfast.job"] == "orders"


def test_a_checkpoint_that_failed_says_why(receiver: OtlpReceiver) -> None:
    failure = FailureRecord(FailureReason.EXPIRED, "took longer than 10m")
    sent(receiver, replace(RECORD, failure=failure, phases=RECORD.phases[:1], slowest=(), id=None))
    root = receiver.wait_for("checkpoint")
    assert root.status.code == root.status.STATUS_CODE_ERROR
    assert root.status.message == "expired: took longer than 10m"
    assert "holdfast.checkpoint" not in facts(root)
    assert [span.name for span in receiver.below(root)] == ["starting"]


def test_a_collector_that_is_away_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    traces = Traces(f"http://127.0.0.1:{free_port()}", "orders")
    done = threading.Event()

    def make() -> None:
        for second in range(50):
            traces.checkpoint(RECORD, AT + timedelta(seconds=second))
        done.set()

    maker = threading.Thread(target=make)
    maker.start()
    assert done.wait(PATIENCE)
    maker.join()
    traces.close(PATIENCE)


def test_the_place_of_a_collector_is_a_url() -> None:
    with pytest.raises(InvalidSettings, match="traces_url"):
        Settings(traces_url="collector:4318")
