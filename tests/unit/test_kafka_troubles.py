"""What a checkpoint needs against what brokers have: each difference is named with both sides."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.sources.brokers import Cluster, Range, Topic
from holdfast.sources.comparing import Kind, Needed, RecordedSource, SourceTrouble, troubles
from holdfast.sources.positions import Partition

P0, P1 = Partition("orders", 0), Partition("orders", 1)
RECORDED = RecordedSource("cluster-1", {"orders": "id-1"})
NEEDED = Needed({P0: 100, P1: 200}, {P0: 150, P1: 200})


def found(
    p0: tuple[int, int] | None = (0, 500),
    p1: tuple[int, int] | None = (0, 500),
    *,
    cluster: str | None = "cluster-1",
    id: str | None = "id-1",
    more: int = 0,
) -> Cluster:
    ranges = {number: Range(*given) for number, given in enumerate((p0, p1)) if given is not None}
    ranges |= {number: Range(0, 10) for number in range(2, 2 + more)}
    return Cluster(cluster, {"orders": Topic(id, ranges)})


def only(cluster: Cluster, needed: Needed = NEEDED) -> SourceTrouble:
    (one,) = troubles(RECORDED, needed, cluster)
    return one


def test_what_is_all_there_is_no_trouble() -> None:
    assert troubles(RECORDED, NEEDED, found()) == ()
    assert troubles(RECORDED, NEEDED, found((100, 150), (200, 200))) == ()


@pytest.mark.parametrize(
    ("cluster", "kind", "sides"),
    [
        (found(cluster="cluster-2"), "another_cluster", ["cluster-1", "cluster-2", "orders"]),
        (found(id="id-2"), "recreated", ["id-1", "id-2", "orders"]),
        (Cluster("cluster-1", {"orders": None}), "topic_gone", ["orders"]),
        (Cluster("cluster-1", {}), "topic_gone", ["orders"]),
        (found(p1=None), "partitions_gone", ["partition 1", "1 partitions", "of 2"]),
        (found((101, 500)), "aged_out", ["orders[0]", "100", "101", "1 records"]),
        (found((0, 149)), "cut_off", ["orders[0]", "150", "149"]),
        (found(more=7), "new_partitions", ["2, 3, 4, 5, 6 and 2 more", "orders"]),
    ],
)
def test_each_trouble_names_both_sides(cluster: Cluster, kind: Kind, sides: list[str]) -> None:
    trouble = only(cluster)
    assert trouble.kind == kind
    for side in sides:
        assert side in trouble.message
    assert trouble.harmless is (kind == "new_partitions")
    assert trouble.of_another_topic is (kind in ("another_cluster", "recreated"))


def test_several_troubles_are_all_named() -> None:
    kinds = [trouble.kind for trouble in troubles(RECORDED, NEEDED, found((120, 130), None, more=1))]
    assert kinds == ["partitions_gone", "new_partitions", "aged_out", "cut_off"]


@pytest.mark.parametrize("unknown", [RecordedSource(None, {}), RECORDED])
def test_what_one_side_does_not_know_is_not_compared(unknown: RecordedSource) -> None:
    assert troubles(unknown, NEEDED, found(cluster=None, id=None)) == ()
    assert troubles(RecordedSource(None, {}), NEEDED, found(cluster="x", id="y")) == ()


RANGES = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda pair: (min(pair), max(pair)))


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 50), st.integers(0, 20), RANGES)
def test_a_job_resumes_without_trouble_only_where_it_can_read_what_it_planned(
    start: int, more: int, has: tuple[int, int]
) -> None:
    needed = Needed({P0: start}, {P0: start + more})
    cluster = Cluster("cluster-1", {"orders": Topic("id-1", {0: Range(*has)})})
    readable = has[0] <= start and start + more <= has[1]
    assert (not troubles(RECORDED, needed, cluster)) is readable
