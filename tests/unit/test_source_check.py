"""A start whose sources no longer have what it needs is refused by name; brokers that do not answer refuse nothing."""

import logging
from collections.abc import Collection

import pytest

from holdfast.checkpoint.query_facts import KafkaFacts, QueryFacts, decode, encode
from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.runtime.sources.source_check import SourceCheck, positions_at
from holdfast.sources.brokers import BrokersFailed, Cluster, Range, Refused, Topic
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.positions import Partition, Positions
from tests.unit.test_kafka_positions import entry

HELD = {"0": KafkaFacts(cluster="cluster-1", topics={"orders": "id-1"})}
BARRIER = BatchId(7)


class Directory:
    def __init__(self, offsets: dict[int, int]) -> None:
        """`offsets` by batch."""
        self._offsets = offsets

    def names(self, folder: str = "") -> list[str]:
        return [*map(str, self._offsets), ".7.crc"]

    def read(self, path: str) -> bytes:
        try:
            return planned(self._offsets[int(path.removeprefix("offsets/"))])
        except KeyError:
            raise FileNotFoundError(path) from None


class Brokers:
    def __init__(self, earliest: int = 0, latest: int = 1000, *, cluster: str = "cluster-1", id: str = "id-1") -> None:
        self.answer = Cluster(cluster, {"orders": Topic(id, {0: Range(earliest, latest)})})
        self.fails: BrokersFailed | None = None
        self.asked: list[set[str]] = []
        self.closed = 0

    def look(self, topics: Collection[str]) -> Cluster:
        self.asked.append(set(topics))
        if self.fails is not None:
            raise self.fails
        return self.answer

    def commit(self, group: str, positions: Positions) -> None:
        raise AssertionError

    def ends(self, partitions: Collection[Partition]) -> Positions:
        raise AssertionError

    def close(self) -> None:
        self.closed += 1


def planned(at: int) -> bytes:
    return entry(f'{{"orders":{{"0":{at}}}}}')


def check(brokers: Brokers, *, fails: bool = True, accept: bool = False, installed: bool = True) -> SourceCheck:
    source = KafkaInput("0", "a:9092", "orders", ("orders",), fails, lambda: brokers)
    return SourceCheck(JobName("sums"), (source,), installed=installed, accept=accept, sleep=lambda seconds: None)


def refusal(brokers: Brokers, **how: bool) -> Conflict:
    refused = check(brokers, **how).refusal(Directory({7: 100}), BARRIER, HELD)
    assert refused is not None
    return refused


def test_a_job_resumes_where_everything_is_there() -> None:
    brokers = Brokers()
    assert check(brokers).refusal(Directory({7: 100}), BARRIER, HELD) is None
    assert brokers.closed == 1


@pytest.mark.parametrize(
    ("brokers", "sides", "way_out"),
    [
        (
            Brokers(101),
            ["needs orders[0] from offset 100", "oldest that the brokers still have is 101"],
            "failOnDataLoss",
        ),
        (Brokers(0, 99), ["up to offset 100", "only up to 99"], "failOnDataLoss"),
        (Brokers(id="id-2"), ["id-1", "id-2", "deleted and created again"], "--accept-source"),
        (Brokers(cluster="cluster-2"), ["cluster-1", "cluster-2"], "--accept-source"),
    ],
)
def test_a_refusal_names_both_sides_and_the_ways_out(brokers: Brokers, sides: list[str], way_out: str) -> None:
    refused = refusal(brokers)
    for side in ("'sums'", "batch 7", *sides):
        assert side in refused.message
    assert refused.hint is not None
    assert way_out in refused.hint
    assert "a new job name" in refused.hint


def test_what_is_planned_must_be_there_too() -> None:
    local = Directory({6: 50, 7: 100, 8: 120})
    assert check(Brokers(0, 120)).refusal(local, BARRIER, HELD) is None
    cut = check(Brokers(0, 119)).refusal(local, BARRIER, HELD)
    assert cut is not None
    assert "120" in cut.message
    cut = check(Brokers(0, 199)).refusal(Directory({7: 100}), BARRIER, HELD, planned(200))
    assert cut is not None
    assert "200" in cut.message


def test_a_reader_that_gives_records_up_is_not_refused_but_told_of(caplog: pytest.LogCaptureFixture) -> None:
    giving_up = check(Brokers(130), fails=False)
    with caplog.at_level(logging.WARNING):
        assert giving_up.refusal(Directory({7: 100}), BARRIER, HELD) is None
    (said,) = giving_up.skipped
    assert "30 records are gone" in said
    assert "failOnDataLoss=false" in caplog.text


@pytest.mark.parametrize("brokers", [Brokers(id="id-2"), Brokers(cluster="cluster-2")])
def test_nobody_gives_up_another_topic_by_giving_up_records(brokers: Brokers) -> None:
    refusal(brokers, fails=False)


@pytest.mark.parametrize("brokers", [Brokers(id="id-2"), Brokers(cluster="cluster-2")])
def test_another_topic_that_a_person_accepts_must_still_have_the_records(brokers: Brokers) -> None:
    assert check(brokers, accept=True).refusal(Directory({7: 100}), BARRIER, HELD) is None
    cut = check(brokers, accept=True).refusal(Directory({7: 1001}), BARRIER, HELD)
    assert cut is not None
    assert "only up to 1000" in cut.message


def test_many_troubles_are_named_in_part() -> None:
    lines = ",".join(f'"{number}":5' for number in range(9))
    offsets = entry(f'{{"orders":{{{lines}}}}}')
    brokers = Brokers()
    brokers.answer = Cluster(None, {"orders": Topic(None, {number: Range(6, 9) for number in range(9)})})
    directory = Directory({})
    directory.read = lambda path: offsets  # type: ignore[method-assign]
    refused = check(brokers).refusal(directory, BARRIER, {})
    assert refused is not None
    assert refused.message.count("records are gone") == 3
    assert "6 more like this" in refused.message


def test_brokers_that_do_not_answer_refuse_nothing_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers()
    brokers.fails = BrokersFailed(Refused.UNREACHABLE, "connection refused")
    with caplog.at_level(logging.WARNING):
        assert check(brokers).refusal(Directory({7: 100}), BARRIER, HELD) is None
    assert "connection refused" in caplog.text
    assert "could not check whether Kafka" in caplog.text


def test_a_partition_without_a_leader_is_asked_about_again_for_a_moment() -> None:
    class Electing(Brokers):
        def look(self, topics: Collection[str]) -> Cluster:
            self.fails = BrokersFailed(Refused.LEADER, "no leader") if len(self.asked) < 2 else None
            return super().look(topics)

    brokers = Electing(id="id-2")
    refusal(brokers)
    assert len(brokers.asked) == 3
    brokers = Brokers(id="id-2")
    brokers.fails = BrokersFailed(Refused.LEADER, "no leader")
    assert check(brokers).refusal(Directory({7: 100}), BARRIER, HELD) is None
    assert len(brokers.asked) == 3


@pytest.mark.parametrize("directory", [Directory({}), Directory({8: 3})])
def test_offsets_that_cannot_be_read_refuse_nothing(directory: Directory) -> None:
    assert check(Brokers(500)).refusal(directory, BARRIER, HELD) is None


def test_one_start_asks_once() -> None:
    brokers = Brokers()
    checked = check(brokers)
    for _ in range(3):
        checked.refusal(Directory({7: 100}), BARRIER, HELD)
    positions = {"0": {Partition("orders", 0): 100}}
    assert checked.facts(HELD, positions) == HELD
    assert len(brokers.asked) == 1
    checked.forget()
    checked.refusal(Directory({7: 100}), BARRIER, HELD)
    assert len(brokers.asked) == 2


def test_without_the_extra_nobody_is_asked_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    brokers = Brokers(500)
    with caplog.at_level(logging.INFO):
        checked = check(brokers, installed=False)
    assert checked.refusal(Directory({7: 100}), BARRIER, HELD) is None
    assert checked.facts(HELD, {}) == HELD
    assert brokers.asked == []
    assert "holdfast-spark[kafka]" in caplog.text


# --- what is recorded ---


def test_cluster_and_topics_are_recorded_also_before_the_first_record() -> None:
    brokers = Brokers(cluster="cluster-9", id="id-9")
    assert check(brokers).facts({}, {}) == {"0": KafkaFacts(cluster="cluster-9", topics={"orders": "id-9"})}
    assert brokers.asked == [{"orders"}]


def test_what_is_not_known_now_is_kept() -> None:
    brokers = Brokers()
    brokers.fails = BrokersFailed(Refused.UNREACHABLE, "away")
    assert check(brokers).facts(HELD, {}) == HELD


def test_the_record_is_read_back_and_an_older_one_knows_nothing() -> None:
    facts = QueryFacts(spark="4.3.0", kafka=HELD)
    assert decode(encode(facts)) == facts
    older = decode(b'{"spark":"4.2.0"}')
    assert older is not None
    assert older.kafka == {}


def test_positions_are_those_of_the_batch() -> None:
    source = KafkaInput("0", "a:9092", "orders", (), True, Brokers)
    assert positions_at((source,), Directory({7: 100}), BARRIER) == {"0": {Partition("orders", 0): 100}}
    assert positions_at((source,), Directory({}), BARRIER) == {}
    assert positions_at((source,), Directory({}), None) == {}
