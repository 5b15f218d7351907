"""Every kind of work directory passes the public suite; HDFS in tests/stores. The third one exists only here, and the
callers do not know it: what they do on a disk they do with it."""

import pickle
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint.query_facts import QueryFacts
from holdfast.errors import Conflict, InvalidSettings
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch, JobName, Sequence, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Process, RunStarted
from holdfast.repository.journal import entry_key
from holdfast.runtime.job_folder import JobFolder, require_no_work_directory
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.recovery.evidence import difference
from holdfast.runtime.work_marker import WorkMarker, read_marker
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot.carrier import ShardDeclined, copy_shards
from holdfast.snapshot.copy_task import CopyReport, CopyTask, run_copy_task
from holdfast.snapshot.remote_copier import HomeOfCopies, RemoteCopier
from holdfast.testing.workdirs import WorkDirectoryConformance, content, put
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.query_record import held_facts, write_record
from holdfast.workdir.restorer import restore
from holdfast.workdir.soundness import damage
from tests.flat_directory import flat_directory
from tests.unit.work_files import EPOCH, manifest_of, new_store

JOB = JobName("orders")
MARKER = WorkMarker(job=JOB, home="file:///home", lineage="lineage")
DESCRIPTION = "state/0/_metadata/v2/0"
SCHEMA = "state/0/_stateSchema/default/0_a"
LEFT = {
    "metadata": b'{"id":"one"}',
    "offsets/0": b"v1\n{}\n{}",
    "commits/0": b"v1\n{}",
    "offsets/1": b"v1\n{}\n{}",
    DESCRIPTION: f'v3\n{{"stateStoreInfo":[{{"stateSchemaFilePaths":["s3a://old/{SCHEMA}"]}}]}}'.encode(),
    SCHEMA: b"schema",
    "state/0/0/1.delta": b"state",
    "state/0/0/1.snapshot": bytes(2 << 20),
}
"""By a run that was killed amid batch 1."""


class TestMounted(WorkDirectoryConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path

    def make_directory(self) -> WorkDirectory:
        return work_directory(self.path / "work")


class TestFlat(WorkDirectoryConformance):
    @pytest.fixture(autouse=True)
    def place(self) -> None:
        self.bucket = uuid.uuid4().hex

    def make_directory(self) -> WorkDirectory:
        return flat_directory(self.bucket)


@pytest.fixture(params=["mounted", "flat"])
def work(request: pytest.FixtureRequest, tmp_path: Path) -> WorkDirectory:
    return flat_directory(uuid.uuid4().hex, "work") if request.param == "flat" else work_directory(tmp_path / "work")


def run(epoch: int) -> RunStarted:
    return RunStarted(
        sequence=Sequence(epoch),
        attempt=AttemptId(""),
        at=datetime.now(UTC),
        fencing_epoch=FencingEpoch(epoch),
        lineage="lineage",
        process=Process("here", 1),
        heartbeat_s=1.0,
        work="",
        holdfast="",
    )


def left_by(work: WorkDirectory, epoch: int) -> WorkDirectory:
    directory = work.at(JOB).at(f"{epoch}-1")
    put(directory, LEFT)
    ledger.write(directory, StagedBatch(BatchId(0), FencingEpoch(epoch), ()))
    return directory


def at(directory: WorkDirectory) -> dict[str, bytes]:
    """What was left, as it is in another place."""
    there = f'v3\n{{"stateStoreInfo":[{{"stateSchemaFilePaths":["{directory.spark_root}/{SCHEMA}"]}}]}}'
    return {**LEFT, DESCRIPTION: there.encode()}


def test_what_a_run_leaves_is_copied_and_restored_by_the_next(work: WorkDirectory, tmp_path: Path) -> None:
    store = new_store(tmp_path / "home")
    place = JobFolder(work, MARKER)
    left_by(work, 3)
    directory = place.intact(run(3))
    assert directory is not None
    assert damage(directory.files) is None
    planned = directory.plan(BatchId(0))
    pinned = directory.pin(Ticket(1), planned.files())
    assert pinned is work.abilities.pins
    manifest = manifest_of(directory.copy(planned.shards, Blobs(store, EPOCH), lambda: False))
    directory.unpin(Ticket(1))
    assert {file.path for file in manifest.files()} >= {*LEFT} - {"offsets/1", "state/0/0/1.delta"}

    restored = place.restore(store, manifest, FencingEpoch(7))
    assert restored.location == f"{work.location}/{JOB}/7-1"
    assert restored.newest_barrier() == 0
    assert content(restored.files)[DESCRIPTION] == at(restored.files)[DESCRIPTION]
    assert damage(restored.files) is None
    assert difference(restored, msgspec.structs.replace(manifest, barrier_batch_id=BatchId(0))) is None
    place.clean(restored)
    assert sorted(work.names(JOB)) == ["7-1", "job.json"]
    with pytest.raises(InvalidSettings, match="must be an empty directory"):
        restore(store, manifest, restored.files)


def test_a_run_goes_on_in_what_the_one_before_left(work: WorkDirectory) -> None:
    place = JobFolder(work, MARKER)
    left_by(work, 3)
    previous = place.intact(run(3))
    assert previous is not None
    adopted = place.adopt(previous, FencingEpoch(7))
    found = content(adopted.files)
    assert found.pop("ledger/0.json")
    expected = at(adopted.files)
    if not work.abilities.takes_over_by_rename:
        del expected["state/0/0/1.delta"]  # the snapshot of the same version is enough
    assert found == expected
    assert [entry.batch_id for entry in adopted.ledger()] == [0]
    assert place.intact(run(7)) is not None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state/0/0/1.snapshot": b""}, "state/0/0/1.snapshot is empty"),
        ({"offsets/0": b"?"}, "offsets/0 could not be understood"),
        ({"metadata": b"{}"}, "metadata could not be understood: it has no id"),
    ],
)
def test_what_no_query_could_resume_from_is_set_aside(work: WorkDirectory, change: dict[str, bytes], why: str) -> None:
    place = JobFolder(work, MARKER)
    put(left_by(work, 3), change)
    assert place.intact(run(3)) is None
    assert why in work.read(f"{JOB}/3-1.aside").decode()
    place.clean(place.fresh(FencingEpoch(4)))
    assert work.exists(f"{JOB}/3-1"), "kept for people to look at"


def test_what_vanishes_declines_unless_it_is_pinned(work: WorkDirectory, tmp_path: Path) -> None:
    place = JobFolder(work, MARKER)
    directory: RunDirectory | None
    left_by(work, 3)
    directory = place.intact(run(3))
    assert directory is not None
    planned = directory.plan(BatchId(0))
    pinned = directory.pin(Ticket(1), planned.files())
    directory.files.remove("commits/0")
    if pinned:
        assert directory.copy(planned.shards, Blobs(new_store(tmp_path / "home"), EPOCH), lambda: False)
    else:
        with pytest.raises(ShardDeclined, match=r"commits/0 .*vanished"):
            directory.copy(planned.shards, Blobs(new_store(tmp_path / "home"), EPOCH), lambda: False)


def test_records_and_ledger_are_kept(work: WorkDirectory) -> None:
    directory = JobFolder(work, MARKER).fresh(FencingEpoch(1))
    for batch in (0, 1, 2):
        ledger.write(directory.files, StagedBatch(BatchId(batch), FencingEpoch(1), ()))
    directory.prune_ledger(BatchId(0))
    directory.drop_ledger_after(BatchId(1))
    assert [entry.batch_id for entry in directory.ledger()] == [1]
    write_record(directory.files, BatchId(1), QueryFacts(spark="4.3.0"))
    write_record(directory.files, BatchId(2), QueryFacts(spark="4.3.0"))
    assert directory.files.names("query") == ["1.json"]
    assert held_facts(directory.files, BatchId(1)).spark == "4.3.0"


def test_a_place_has_one_owner(work: WorkDirectory) -> None:
    JobFolder(work, MARKER)
    left_by(work, 3)
    with pytest.raises(Conflict, match="is the work directory of job 'orders' of file:///home"):
        JobFolder(work, msgspec.structs.replace(MARKER, home="file:///other"))
    with pytest.raises(InvalidSettings, match="it is itself a work directory"):
        require_no_work_directory(work.at(JOB))
    require_no_work_directory(work)
    newer = msgspec.structs.replace(MARKER, lineage="another lineage")
    JobFolder(work, newer, new_life=True).remember(Sequence(9))
    assert read_marker(work.at(JOB)) == msgspec.structs.replace(newer, head=Sequence(9))
    assert "metadata" in work.names("orders.stale-lineage/3-1")
    assert work.names(JOB) == ["job.json"]


class AnotherProcess:
    def at_once(self) -> int:
        return 1

    def send(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        self.sent = copy_task
        report = pickle.loads(pickle.dumps(run_copy_task(pickle.loads(pickle.dumps(copy_task)))))
        assert isinstance(report, CopyReport)
        return report


def test_other_processes_copy_from_it(work: WorkDirectory, tmp_path: Path) -> None:
    directory = left_by(work, 3)
    (tmp_path / "home").mkdir()
    store = new_store(tmp_path / "home" / "orders")
    store.create(entry_key(EPOCH), b"claim")
    other = AnotherProcess()
    carry = RemoteCopier(other, HomeOfCopies(f"file://{tmp_path}/home", "orders", store, 1.0), worthwhile=0)
    planned = JobFolder(work, MARKER)._directory("3-1").plan(BatchId(0)).shards
    theirs = carry(directory, planned, Blobs(store, EPOCH), lambda: False)
    assert other.sent.place.directory.location == directory.location
    ours = copy_shards(directory, planned, Blobs(new_store(tmp_path / "here"), EPOCH), lambda: False)
    assert theirs == tuple(replace(copy, host=socket.gethostname()) for copy in ours)
