"""A work directory on a real HDFS: written by Spark with its own client; read, copied, restored and kept by holdfast
with another one, as on a local disk, but for links."""

import json
import pickle
import socket
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.checkpoint.query_facts import QueryFacts
from holdfast.cli.main import main
from holdfast.errors import Conflict, Corrupt, InvalidSettings, StorageDenied, StorageUnreachable
from holdfast.identifiers import BatchId, FencingEpoch, JobName, Ticket
from holdfast.repository.blobs import Blobs
from holdfast.repository.journal import entry_key
from holdfast.runtime import job_folder
from holdfast.runtime.commands.leftovers import Kind
from holdfast.runtime.job_folder import JobFolder, RunFolder, require_no_work_directory
from holdfast.runtime.work_marker import WorkMarker, take_place
from holdfast.sinks import ledger
from holdfast.sinks.protocol import StagedBatch
from holdfast.snapshot.carrier import ShardDeclined, copy_shards
from holdfast.snapshot.copy_task import CopyReport, CopyTask, run_copy_task
from holdfast.snapshot.remote_copier import HomeOfCopies, RemoteCopier
from holdfast.storage.hdfs_connection import HdfsConnection
from holdfast.testing.workdirs import WorkDirectoryConformance, content, put
from holdfast.workdir.barriers import files_of, newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.hdfs import HdfsCluster, HdfsDirectory
from holdfast.workdir.hdfs_path import HdfsPath
from holdfast.workdir.interface import Changed, WorkDirectory
from holdfast.workdir.planned_file import pieces
from holdfast.workdir.query_record import held_facts, write_record
from holdfast.workdir.restorer import restore
from tests.end_to_end.driver import STATE_FORMATS
from tests.end_to_end.harness import Pipeline
from tests.stores.cutting_proxy import Fate, cutting_proxy
from tests.stores.hdfs_server import HdfsServer
from tests.torture import TORTURE
from tests.unit.job_histories import History
from tests.unit.test_work_directories import run
from tests.unit.work_files import EPOCH, MIB, manifest_of, new_store, shards_of

MARKER = WorkMarker(job=JobName("orders"), home="file:///home", lineage="lineage")
LIVES = ["batch.begin:1"]
"""Each in the directory of the one before; the first, the third, … are followed by a wipe."""
if TORTURE:
    LIVES = ["checkpoint.copied:2", "batch.ledger:2", "checkpoint.journal:2", "publish.begin:1"]
HOUR_S = 3600.0
FORMATS = list(STATE_FORMATS) if TORTURE else ["rocksdb-changelog"]
DESCRIPTION = "state/0/_metadata/v2/0"
CONTENTS = {
    "metadata": b'{"id":"1"}',
    "commits/0": b"v1\n{}",
    "commits/1": b"v1\n{}",
    "sources/0/0": b"v1\n",
    DESCRIPTION: b'v3\n{"stateStoreInfo":[{"stateSchemaFilePaths":["file:/old/state/0/_stateSchema/default/0_a"]}]}',
    "state/0/0/SSTs/large.sst": bytes(range(256)) * (9 * MIB // 256),
}


@pytest.fixture
def root(hdfs: HdfsServer) -> WorkDirectory:
    return work_directory(f"{hdfs.address}/work/{uuid.uuid4().hex[:12]}")


@pytest.fixture
def work(root: WorkDirectory) -> WorkDirectory:
    put(root.at("made"), CONTENTS)
    return root.at("made")


class TestHdfs(WorkDirectoryConformance):
    @pytest.fixture(autouse=True)
    def place(self, hdfs: HdfsServer) -> None:
        self.address = hdfs.address

    def make_directory(self) -> WorkDirectory:
        return work_directory(f"{self.address}/conformance of directories")


def test_names_appear_whole_and_are_taken_once(hdfs: HdfsServer) -> None:
    root = HdfsPath(HdfsConnection(hdfs.address), f"/names/{uuid.uuid4().hex[:12]}")
    assert not root.exists()
    assert not root.is_dir()
    root.mkdir(parents=True)
    with pytest.raises(FileExistsError):
        root.mkdir()
    root.mkdir(exist_ok=True)
    (root / "a").write_whole(b"one")
    before = (root / "a").stat()
    (root / "a").write_whole(b"other")
    assert (root / "a").read_bytes() == b"other"
    assert (root / "a").stat() != before
    assert [path.name for path in root.iterdir()] == ["a"], "no temporary file is left"
    (root / "b").mkdir()
    (root / "c").mkdir()
    with pytest.raises(FileExistsError):
        (root / "c").rename(root / "b")
    with pytest.raises(FileExistsError):
        (root / "a").open("xb")
    (root / "c").rename(root / "d")
    assert sorted(path.name for path in root.iterdir()) == ["a", "b", "d"]
    (root / "a").unlink()
    (root / "a").unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        (root / "a").unlink()
    with pytest.raises(FileNotFoundError):
        (root / "a").read_bytes()
    root.remove_tree()
    root.remove_tree()
    assert not root.exists()


def test_a_scan_sees_every_file_with_size_and_time(work: WorkDirectory) -> None:
    found = {file.path: file for file in files_of(work)}
    assert {path: file.size for path, file in found.items()} == {path: len(data) for path, data in CONTENTS.items()}
    assert found["metadata"] == work.stat("metadata")
    assert int(found["metadata"].identity) > 0
    assert newest_barrier(work) == 1
    assert files_of(work.at("nowhere")) == ()
    assert newest_barrier(work.at("nowhere")) is None


def test_what_is_copied_comes_back_on_hdfs_and_on_a_disk(
    work: WorkDirectory, root: WorkDirectory, tmp_path: Path
) -> None:
    store = new_store(tmp_path / "home")
    copies = copy_shards(work, shards_of(work), Blobs(store, EPOCH), lambda: False)
    restore(store, manifest_of(copies), root.at("back"))
    back = f"{root.location}/back"
    there = f'v3\n{{"stateStoreInfo":[{{"stateSchemaFilePaths":["{back}/state/0/_stateSchema/default/0_a"]}}]}}'
    assert content(root.at("back")) == {**CONTENTS, DESCRIPTION: there.encode()}
    assert sorted(root.names()) == ["back", "made"], "nothing half-built is left"

    restore(store, manifest_of(copies), work_directory(tmp_path / "here"))
    assert (tmp_path / "here" / "metadata").read_bytes() == CONTENTS["metadata"]
    assert str(tmp_path / "here").encode() in (tmp_path / "here" / DESCRIPTION).read_bytes()

    with pytest.raises(InvalidSettings, match="must be an empty directory"):
        restore(store, manifest_of(copies), root.at("back"))


def test_a_checkpoint_that_is_damaged_leaves_nothing_behind(
    work: WorkDirectory, root: WorkDirectory, tmp_path: Path
) -> None:
    store = new_store(tmp_path / "home")
    copies = copy_shards(work, shards_of(work), Blobs(store, EPOCH), lambda: False)
    (large,) = (file for copy in copies for file in copy.files if file.path.endswith(".sst"))
    store.delete(large.key)
    with pytest.raises(Corrupt, match=r"large\.sst"):
        restore(store, manifest_of(copies), root.at("back"))
    assert root.names() == ["made"]


@pytest.mark.parametrize("path", ["metadata", "state/0/0/SSTs/large.sst"])
def test_what_is_not_the_planned_file_declines(work: WorkDirectory, path: str, tmp_path: Path) -> None:
    planned = shards_of(work)
    blobs = Blobs(new_store(tmp_path / "home"), EPOCH)
    work.write_atomic(path, CONTENTS[path][::-1])
    with pytest.raises(ShardDeclined, match=f"{path} .*was replaced after it was planned"):
        copy_shards(work, planned, blobs, lambda: False)
    work.remove(path)
    with pytest.raises(ShardDeclined, match=f"{path} .*vanished before it was read"):
        copy_shards(work, planned, blobs, lambda: False)


def test_a_file_that_is_replaced_while_it_is_read_is_never_read_in_part(work: WorkDirectory) -> None:
    (file,) = (file for file in files_of(work) if file.path.endswith(".sst"))
    read = bytearray()

    def read_while_it_is_replaced() -> None:
        with work.open_planned(file) as handle:
            for piece in pieces(handle, file):
                if not read:
                    work.write_atomic(file.path, b"x" * file.size)
                read.extend(piece)

    with pytest.raises(Changed):
        read_while_it_is_replaced()
    assert CONTENTS[file.path].startswith(bytes(read))


def test_ledger_and_record_are_kept(root: WorkDirectory, work: WorkDirectory) -> None:
    directory = RunFolder(root, "made")
    entries = [StagedBatch(BatchId(n), FencingEpoch(1), ()) for n in (0, 1, 2)]
    for entry in entries:
        ledger.write(work, entry)
    assert directory.ledger() == tuple(entries)
    directory.prune_ledger(BatchId(0))
    directory.drop_ledger_after(BatchId(1))
    assert directory.ledger() == (entries[1],)
    facts = QueryFacts(spark="4.3.0")
    write_record(work, BatchId(1), facts)
    write_record(work, BatchId(2), facts)
    assert work.names("query") == ["1.json"]
    assert held_facts(work, BatchId(1)).spark == "4.3.0"


def test_a_run_begins_anew_and_removes_what_earlier_ones_left(root: WorkDirectory) -> None:
    place = JobFolder(root, MARKER)
    bad, old = place.fresh(FencingEpoch(3)), place.fresh(FencingEpoch(4))
    job = root.at("orders")
    job.at(".4-2.restoring-77").make()
    job.at("9-1").make()
    bad.set_aside("unreadable")
    keep = place.fresh(FencingEpoch(5))
    assert (old.location, keep.location) == (f"{job.location}/4-1", f"{job.location}/5-1")
    place.clean(keep)
    assert sorted(job.folders()) == ["3-1", "5-1", "9-1"]
    assert not keep.pin(Ticket(1), ())

    with pytest.raises(Conflict, match="is the work directory of job 'orders' of file:///home"):
        JobFolder(root, msgspec.structs.replace(MARKER, home="file:///other"))
    with pytest.raises(InvalidSettings, match="it is itself a work directory"):
        require_no_work_directory(job)
    JobFolder(root, msgspec.structs.replace(MARKER, lineage="another lineage"), new_life=True)
    assert "5-1" in root.folders("orders.stale-lineage")


LEFT = {
    "metadata": b'{"id":"one"}',
    "offsets/0": b"v1\n{}",
    "commits/0": b"v1\n{}",
    "offsets/1": b"v1\n{}",
    "ledger/1.json": b'{"batch_id":1,"fencing_epoch":3,"files":[]}',
    DESCRIPTION: CONTENTS[DESCRIPTION],
    "state/0/0/1.delta": b"state",
}
"""By a run that was killed amid batch 1."""


def test_what_the_run_before_left_is_taken_away_from_it(root: WorkDirectory) -> None:
    place = JobFolder(root, MARKER)
    old = root.at("orders").at("3-2")
    put(old, LEFT)
    root.at("orders").at("3-1").make()
    assert place.intact(run(2)) is None
    previous = place.intact(run(3))
    assert previous is not None
    assert previous.location == old.location

    put(old, dict.fromkeys(("state/0/0/2.delta", "commits/1"), b"v1\n{}"))  # the query outlived its driver
    adopted = place.adopt(previous, FencingEpoch(7))
    new = root.at("orders").at("7-1")
    assert adopted.location == new.location
    assert f"{new.location}/state/0/_stateSchema/default/0_a".encode() in new.read(DESCRIPTION)
    put(old, {"commits/2": b"v1\n{}", "ledger/2.json": b"late"})
    assert adopted.newest_barrier() == 1
    assert [entry.batch_id for entry in adopted.ledger()] == [1]
    assert place.intact(run(7)) is not None

    place.clean(adopted)
    assert sorted(root.names("orders")) == ["7-1", "job.json"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"state/0/0/1.delta": b""}, "state/0/0/1.delta is empty"),
        ({"state/0/0/1.delta": None}, "state/0/0 holds no version"),
        ({"offsets/0": b"?"}, "offsets/0 could not be understood"),
        ({"metadata": b"{}"}, "metadata could not be understood: it has no id"),
    ],
)
def test_what_no_query_could_resume_from_is_set_aside(
    root: WorkDirectory, change: dict[str, bytes | None], why: str
) -> None:
    place = JobFolder(root, MARKER)
    left = {**LEFT, "state/0/0/SSTs/1.sst": b"seen", **change}
    put(root.at("orders").at("3-1"), {path: data for path, data in left.items() if data is not None})
    assert place.intact(run(3)) is None
    assert why in root.read("orders/3-1.aside").decode()
    assert place.intact(run(3)) is None


class AnotherProcess:
    def __init__(self) -> None:
        self.sent: list[CopyTask] = []

    def at_once(self) -> int:
        return 1

    def send(self, copy_task: CopyTask, cancelled: Callable[[], bool]) -> CopyReport:
        self.sent.append(copy_task)
        report = pickle.loads(pickle.dumps(run_copy_task(pickle.loads(pickle.dumps(copy_task)))))
        assert isinstance(report, CopyReport)
        return report


def test_other_processes_copy_from_it_when_it_is_the_same(work: WorkDirectory, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    store = new_store(tmp_path / "home" / "orders")
    store.create(entry_key(EPOCH), b"claim")
    other = AnotherProcess()
    carry = RemoteCopier(other, HomeOfCopies(f"file://{tmp_path}/home", "orders", store, 1.0), worthwhile=0)
    copies = carry(work, shards_of(work), Blobs(store, EPOCH), lambda: False)
    assert sum(copy.bytes_new for copy in copies) == sum(len(data) for data in set(CONTENTS.values()))

    (copy_task,) = other.sent
    another = replace(copy_task, place=replace(copy_task.place, directory_identity="7"))
    assert "is another directory than on the driver" in str(run_copy_task(another).failure)
    gone = replace(copy_task, place=replace(copy_task.place, directory=work.at("gone")))
    assert "does not see the work directory" in str(run_copy_task(gone).failure)


def test_collect_shows_and_frees_what_runs_left(
    root: WorkDirectory, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk: tests/unit/test_leftovers.py."""
    history = History(tmp_path / "home")
    history.run(work=root.at("orders").location)
    history.end()
    home = f"file://{history.home}"
    for lineage, new_life in (("aaaaaaaa-first", False), ("lineage", True)):
        marker = WorkMarker(job=JobName("orders"), home=home, lineage=lineage, epoch=EPOCH)
        take_place(root, marker, new_life=new_life)
        put(root.at("orders"), {f"1-1/state/{lineage}": bytes(1000)})
    put(root.at("orders"), {"1-1.aside": b"no magic", ".1-2.restoring-77/state/x": bytes(500), "1-3/commits/0": b""})

    def collected(*more: str) -> Any:
        assert main(["collect", "--home", home, "--job", "orders", "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)

    shown = collected()["local"]
    assert [(item["path"].removeprefix(root.location), item["bytes"], item["why"]) for item in shown] == [
        ("/orders.stale-aaaaaaaa", shown[0]["bytes"], "stale"),
        ("/orders/1-1", 1000, "set aside"),
        ("/orders/.1-2.restoring-77", 500, "half-built"),
    ]
    assert all(item["free_at"] for item in shown), "all of it is young"
    monkeypatch.setattr("holdfast.runtime.commands.leftovers.KEPT_S", dict.fromkeys(Kind, -HOUR_S))
    assert collected()["freed_local"]["objects"] == 3
    assert sorted(content(root)) == ["orders/1-3/commits/0", "orders/job.json"]


def test_since_when_a_directory_is_aside_is_known_though_a_rename_has_no_time(root: WorkDirectory) -> None:
    take_place(root, MARKER, new_life=False)
    before = root.changed_at("orders")
    take_place(root, msgspec.structs.replace(MARKER, lineage="another"), new_life=True)
    assert root.changed_at("orders.stale-lineage") > before


def test_refusals_are_named_after_their_cause(
    work: WorkDirectory, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    stranger = work_directory(work.location)
    with pytest.raises(StorageDenied, match="Permission denied: user=stranger"):
        ledger.write(stranger, StagedBatch(BatchId(0), FencingEpoch(1), ()))


def test_a_ledger_entry_is_written_once_the_namenode_answers(work: WorkDirectory, hdfs: HdfsServer) -> None:
    entry = StagedBatch(BatchId(0), FencingEpoch(1), ())
    fates = iter([Fate.NEVER_ARRIVES, Fate.ANSWER_DROPPED])
    with cutting_proxy(hdfs.port, rb"rename2", lambda: next(fates, Fate.PASSES)) as proxy:
        place = work.location.removeprefix(hdfs.address)
        ledger.write(work_directory(f"hdfs://127.0.0.1:{proxy.port}{place}"), entry)
        assert proxy.fates[Fate.PASSES] == 1
    assert ledger.read(work) == (entry,)
    assert work.names("ledger") == ["0.json"], "nothing is left of the tries before"


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield f"hdfs://127.0.0.1:{server.getsockname()[1]}"


def test_a_silent_namenode_times_out(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_folder, "GLANCE_S", 0.2)
    away = HdfsDirectory(HdfsCluster(silent, patience=0.3), "/work")
    with pytest.raises(StorageUnreachable, match=r"did not answer within 0\.2 s"):
        RunFolder(away, "1-1").newest_barrier()
    RunFolder(away, "1-1").prune_ledger(BatchId(1))
    with pytest.raises(StorageUnreachable, match=r"look at the work directory .* did not answer within 0\.3 s"):
        require_no_work_directory(away)


@pytest.mark.long
@pytest.mark.usefixtures("short_lived_jvms")
@pytest.mark.parametrize("state_format", FORMATS)
def test_killed_and_started_again_the_output_is_exact(tmp_path: Path, hdfs: HdfsServer, state_format: str) -> None:
    place = f"{hdfs.address}/{state_format}"
    pipeline = Pipeline(
        tmp_path,
        files=3 + 3 * len(LIVES),
        state_format=state_format,
        home_url=f"{place}/homes",
        work_url=f"{place}/work",
    )
    pipeline.start(crash_at="checkpoint.journal:1").end()
    assert len(pipeline.state().completed) == 1
    for number, moment in enumerate(LIVES):
        pipeline.start(crash_at=moment).end()
        pipeline.require_nothing_wrong()
        if number % 2 == 0:
            pipeline.wipe_work()
    pipeline.finish()
    pipeline.require_exact()
    assert "from the previous run's directory hdfs://" in pipeline.log.read_text()
    assert "from checkpoint" in pipeline.log.read_text()

    assert not pipeline.work.exists(), "nothing of it is on a local disk"
    state = pipeline.state()
    assert not state.restarts
    left = [name for name in work_directory(pipeline.work_url).names("counts") if name[0].isdigit()]
    assert left == [f"{state.runs[-1].fencing_epoch}-1"], "each run has its own, and removes those before"
