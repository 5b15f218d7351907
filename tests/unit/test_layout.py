"""Which files make up a barrier, for each of Spark's state formats."""

import json
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.layout import NotPlannable, SnapshotPlan, WorkFile, newest_barrier, plan_snapshot
from holdfast.identifiers import CONTROL_SHARD, BatchId

N = BatchId(12)
CONTROL = {
    "metadata": b"{}",
    "offsets/12": b"v1",
    "offsets/11": b"v1",
    "commits/12": b"v1\n{}",
    "commits/11": b"v1\n{}",
}


def plan(
    names: Iterable[str], contents: Mapping[str, bytes] = CONTROL, ssts: Mapping[str, tuple[str, ...]] | None = None
) -> SnapshotPlan:
    def read(path: str) -> bytes:
        if path not in contents:
            raise FileNotFoundError(path)
        return contents[path]

    def sst_files(path: str) -> tuple[str, ...]:
        if ssts is not None and path not in ssts:
            raise FileNotFoundError(path)
        return (ssts or {}).get(path, ())

    files = [WorkFile(path, 1, str(number)) for number, path in enumerate(dict.fromkeys([*contents, *names]))]
    return plan_snapshot(N, files, read, sst_files)


def shard(found: SnapshotPlan, name: str) -> set[str]:
    (wanted,) = (shard for shard in found.shards if shard.shard == name)
    return {file.path.removeprefix(f"{name}/") for file in wanted.files}


def in_store(*names: str) -> list[str]:
    return [f"state/0/0/{name}" for name in names]


def commit(ids: object) -> bytes:
    return b"v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids}).encode()


def test_a_query_without_state_has_only_the_control_shard() -> None:
    assert [shard.shard for shard in plan([]).shards] == [CONTROL_SHARD]


def test_control_holds_the_last_two_batches_and_nothing_newer() -> None:
    found = plan(["offsets/10", "offsets/13", "commits/13", "commits/10"])
    assert shard(found, "control") == set(CONTROL)


def test_control_holds_sources_schemas_and_the_ledger_up_to_the_barrier() -> None:
    kept = [
        "sources/0/0",
        "sources/1/deep/9.compact",
        "state/0/_metadata/metadata",
        "state/0/_metadata/v2/12",
        "state/0/_stateSchema/default/0_a-b",
        "state/0/0/_metadata/schema",
        "ledger/0.json",
        "ledger/12.json",
    ]
    dropped = [
        "ledger/13.json",
        "state/0/_metadata/v2/13",
        "state/0/0/SSTs/unreferenced.sst",
        "state/0/0/14.delta",
        "sources/0/.1.crc",
        ".metadata.crc",
        "sources/0/.2.6f.tmp",
        "notes.txt",
    ]
    found = plan([*kept, *dropped, *in_store("13.snapshot")])
    assert shard(found, "control") == {*CONTROL, *kept}


@pytest.mark.parametrize("missing", ["metadata", "offsets/12", "offsets/11", "commits/12"])
def test_without_its_log_entries_a_barrier_is_not_plannable(missing: str) -> None:
    contents = {path: data for path, data in CONTROL.items() if path != missing}
    with pytest.raises(NotPlannable, match=missing):
        plan([], contents)


def test_the_first_batch_has_no_predecessor() -> None:
    files = [WorkFile(path, 1, "1") for path in ("metadata", "offsets/0", "commits/0", "state/0/0/1.delta")]
    found = plan_snapshot(BatchId(0), files, lambda path: b"v1\n{}", lambda path: ())
    assert {file.path for file in found.files()} == {"metadata", "offsets/0", "commits/0", "state/0/0/1.delta"}


def test_hdfs_takes_the_nearest_snapshot_and_the_deltas_after_it() -> None:
    names = [*(f"{v}.delta" for v in range(1, 15)), "5.snapshot", "11.snapshot", "14.snapshot"]
    assert shard(plan(in_store(*names)), "state/0/0") == {"11.snapshot", "12.delta", "13.delta"}


def test_hdfs_without_snapshot_takes_every_delta() -> None:
    names = [f"{v}.delta" for v in range(1, 14)]
    assert shard(plan(in_store(*names)), "state/0/0") == set(names)


def test_a_snapshot_of_the_version_itself_needs_no_delta() -> None:
    assert shard(plan(in_store("13.snapshot", "13.delta", "12.delta")), "state/0/0") == {"13.snapshot"}


@pytest.mark.parametrize("names", [("12.delta", "11.snapshot"), ("11.snapshot", "13.delta"), ("14.snapshot",)])
def test_a_missing_version_is_not_plannable(names: tuple[str, ...]) -> None:
    with pytest.raises(NotPlannable, match="state/0/0 lacks version"):
        plan(in_store(*names))


def test_rocksdb_takes_the_zip_with_the_files_it_names() -> None:
    names = ["12.zip", "13.zip", "14.zip", "SSTs/a.sst", "SSTs/b.sst", "logs/c.log"]
    ssts = {"state/0/0/13.zip": ("b.sst", "c.log")}
    assert shard(plan(in_store(*names), ssts=ssts), "state/0/0") == {"13.zip", "SSTs/b.sst", "logs/c.log"}


def test_rocksdb_with_changelog_goes_down_to_the_nearest_zip() -> None:
    names = ["10.zip", "10.changelog", *(f"{v}.changelog" for v in range(1, 15)), "SSTs/a.sst"]
    found = shard(plan(in_store(*names), ssts={"state/0/0/10.zip": ("a.sst",)}), "state/0/0")
    assert found == {"10.zip", "SSTs/a.sst", "11.changelog", "12.changelog", "13.changelog"}


def test_a_file_named_by_the_zip_that_is_gone_is_not_plannable() -> None:
    with pytest.raises(NotPlannable, match=r"SSTs/a\.sst"):
        plan(in_store("13.zip"), ssts={"state/0/0/13.zip": ("a.sst",)})


def test_a_zip_that_vanishes_while_it_is_read_is_not_plannable() -> None:
    with pytest.raises(NotPlannable, match=r"13\.zip vanished"):
        plan(in_store("13.zip"), ssts={})


def test_a_commit_that_vanishes_while_it_is_read_is_not_plannable() -> None:
    files = [WorkFile(path, 1, "1") for path in CONTROL]

    def gone(path: str) -> bytes:
        raise FileNotFoundError(path)

    with pytest.raises(NotPlannable, match="commits/12 vanished"):
        plan_snapshot(N, files, gone, lambda path: ())


def test_a_commit_that_makes_no_sense_is_not_plannable() -> None:
    with pytest.raises(NotPlannable, match="commits/12"):
        plan([], {**CONTROL, "commits/12": b"v1\n{half"})


def test_v2_takes_only_the_ids_that_were_committed_and_their_side_cars() -> None:
    contents = {
        **CONTROL,
        "commits/12": commit({"0": [["good-13"]]}),
        "commits/11": commit({"0": [["good-12"]]}),
        "commits/10": commit({"0": [["good-11"]]}),
    }
    names = [
        "13_good-13.changelog",
        "13_good-13.changelog.crc",
        "13_stale.changelog",
        "13_stale.zip",
        "12_good-12.changelog",
        "12_stale.zip",
        "11_good-11.zip",
        "11_good-11.zip.crc",
        "11_good-11.changelog",
        "10_good-10.changelog",
        "SSTs/a.sst",
    ]
    found = shard(plan(in_store(*names), contents, {"state/0/0/11_good-11.zip": ("a.sst",)}), "state/0/0")
    assert found == {
        "13_good-13.changelog",
        "13_good-13.changelog.crc",
        "12_good-12.changelog",
        "11_good-11.zip",
        "11_good-11.zip.crc",
        "SSTs/a.sst",
    }


def test_v2_is_not_plannable_when_only_a_stale_attempt_has_the_version() -> None:
    contents = {**CONTROL, "commits/12": commit({"0": [["good"]]})}
    with pytest.raises(NotPlannable, match="lacks version 13"):
        plan(in_store("13_stale.zip"), contents)


def test_v2_where_the_commit_was_purged_every_candidate_is_taken_down_to_a_certain_base() -> None:
    contents = {**CONTROL, "commits/12": commit({"0": [["a"]]}), "commits/11": commit({"0": [["b"]]})}
    names = ["13_a.changelog", "12_b.changelog", "11_c.changelog", "11_d.changelog", "11_d.zip", "10_e.zip"]
    unneeded = ["10_e.changelog", "9_f.zip"]
    found = shard(plan(in_store(*names, *unneeded), contents), "state/0/0")
    assert found == set(names)


def test_v2_finds_the_ids_of_a_join_by_partition() -> None:
    contents = {**CONTROL, "commits/12": commit({"0": [["p", "q"], ["r", "s"]]})}
    names = [
        "state/0/0/left/13_p.zip",
        "state/0/0/right/13_q.zip",
        "state/0/1/left/13_r.zip",
        "state/0/1/right/13_s.zip",
        "state/0/1/right/13_p.zip",
    ]
    found = plan(names, contents)
    assert [shard.shard for shard in found.shards] == [
        "control",
        "state/0/0/left",
        "state/0/0/right",
        "state/0/1/left",
        "state/0/1/right",
    ]
    assert shard(found, "state/0/1/right") == {"13_s.zip"}


def test_named_stores_are_shards_of_their_own() -> None:
    found = plan(
        ["state/0/0/left-keys/13.delta", "state/0/0/left-keys/12.snapshot", "state/0/0/right-keys/13.snapshot"]
    )
    assert shard(found, "state/0/0/left-keys") == {"12.snapshot", "13.delta"}
    assert shard(found, "state/0/0/right-keys") == {"13.snapshot"}


@pytest.mark.parametrize(
    "names",
    [
        ["state/0/0/13.snapshot", "state/0/2/13.snapshot"],
        ["state/0/0/13.snapshot", "state/0/1/.13.delta.7d.tmp"],
        ["state/0/1/13.snapshot"],
    ],
)
def test_a_partition_without_a_store_is_not_plannable(names: list[str]) -> None:
    with pytest.raises(NotPlannable, match=r"state/0/[01] holds no version"):
        plan(names)


def test_a_partition_that_the_commit_names_must_be_there() -> None:
    contents = {**CONTROL, "commits/12": commit({"0": [["a"], ["b"]]})}
    with pytest.raises(NotPlannable, match="state/0/1 holds no version"):
        plan(in_store("13_a.zip"), contents)


def test_the_newest_barrier_is_a_number_not_a_text() -> None:
    assert newest_barrier(["9", "10", ".11.crc", "11.tmp", "x"]) == 10
    assert newest_barrier([]) is None


@given(deltas=st.sets(st.integers(1, 15)), snapshots=st.sets(st.integers(1, 15)))
def test_a_plan_holds_what_a_reader_needs_and_exists_whenever_it_could(deltas: set[int], snapshots: set[int]) -> None:
    """Against the reader's rule, written down the other way round: try every base."""
    bases = [base for base in {0, *snapshots} if base <= 13 and set(range(base + 1, 14)) <= deltas]
    names = [f"{v}.delta" for v in deltas] + [f"{v}.snapshot" for v in snapshots]
    if not names:
        return
    if not bases:
        with pytest.raises(NotPlannable):
            plan(in_store(*names))
        return
    best = max(bases)
    expected = {f"{v}.delta" for v in range(best + 1, 14)} | ({f"{best}.snapshot"} if best else set())
    assert shard(plan(in_store(*names)), "state/0/0") == expected
