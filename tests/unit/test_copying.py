"""`holdfast copy`: the same job in another home, proved on the way, never half, never over somebody else's."""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.checkpoint.manifest import digest_of
from holdfast.cli.main import main
from holdfast.errors import Fenced, StorageUnreachable
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, JobName
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import Stamp, WentBack
from holdfast.repository.journal import entry_key, read_entries
from holdfast.repository.ownership import current_process
from holdfast.repository.state import JobState
from holdfast.repository.verification import verify
from holdfast.runtime.commands.copying import Copy, JobHome
from holdfast.runtime.commands.maintenance import COPY_LEAD
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.recovery.recovery import Recovery, is_copied
from holdfast.runtime.recovery.resuming import align_sink
from holdfast.runtime.work_marker import WorkMarker
from holdfast.sinks.protocol import StagedBatch
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.test_cli_restore_verify import flip_one_byte
from tests.unit.work_files import MIB, tree, write


class Source:
    """A job with savepoint 1, a failure and checkpoint 3."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = tmp_path / "home"
        self.to = tmp_path / "other"
        self.to.mkdir()
        self.history = History(self.path)
        self.work = tmp_path / "work"
        self.blobs = Blobs(self.history.store, self.history.run())
        write(self.work, {"metadata": b"{}", "offsets/12": b"o", "commits/12": b"c", "state/1.sst": b"1" * MIB})
        self.checkpoint(1, name="before-upgrade")
        self.history.fail(2)
        self.checkpoint(3)

    def checkpoint(self, id: int, **fields: Any) -> None:
        write(self.work, {f"state/{id}.sst": bytes([id]) * MIB})
        complete_with_bytes(self.history, id, self.work, self.blobs, **fields)

    def arguments(self, *more: str) -> list[str]:
        return ["copy", "--home", f"file://{self.path}", "--job", "orders", "--to", f"file://{self.to}", *more]

    def place(self) -> JobHome:
        return JobHome(JobName("orders"), f"file://{self.path}", LocalStore(self.path).scoped("orders"))

    def target(self) -> JobHome:
        return JobHome(JobName("orders"), f"file://{self.to}", LocalStore(self.to).scoped("orders"))

    def target_state(self, job: str = "orders") -> JobState:
        return JobState.of(read_entries(LocalStore(self.to).scoped(job)))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def copy(capsys: pytest.CaptureFixture[str], source: Source, *more: str) -> tuple[int, dict[str, Any]]:
    code = main([*source.arguments("--json"), *more])
    return code, json.loads(capsys.readouterr().out or "{}")


@contextmanager
def no_progress(load: object) -> Iterator[Any]:
    yield lambda size: None


def names_of(tree: dict[str, bytes], text: str) -> list[str]:
    return [path for path, data in tree.items() if text.encode() in data]


def test_the_newest_checkpoint_can_be_restored_from_the_copy_when_the_source_is_gone(
    source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report = copy(capsys, source)
    assert (code, report["checkpoints"], report["present"], report["damaged"]) == (0, [3], [], {})
    assert report["bytes"] >= 2 * MIB
    source.path.rename(tmp_path / "gone")
    assert names_of(tree(source.to), str(source.path)) == []
    home = ["--home", f"file://{source.to}", "--job", "orders"]
    assert main(["verify", *home, "--all"]) == 0
    assert main(["restore", *home, "--to", str(tmp_path / "restored")]) == 0
    assert tree(tmp_path / "restored") == tree(source.work)


@pytest.mark.parametrize("choice", [("--checkpoint", "1"), ("--savepoint", "before-upgrade")])
def test_one_checkpoint_under_another_name(
    source: Source, capsys: pytest.CaptureFixture[str], choice: tuple[str, str]
) -> None:
    code, report = copy(capsys, source, "--as", "orders-test", *choice)
    assert (code, report["as"], report["checkpoints"]) == (0, "orders-test", [1])
    assert [path.name for path in source.to.iterdir() if path.is_dir()] == ["orders-test"]
    (entry,) = source.target_state("orders-test").restorable()
    assert (entry.id, entry.name) == (1, "before-upgrade")


def test_a_whole_job_with_its_savepoints_and_history(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = copy(capsys, source, "--all")
    assert (code, report["checkpoints"]) == (0, [1, 3])
    there, here = source.target_state(), source.history.state()
    for id, entry in here.completed.items():
        same = ("name", "at", "triggered_at", "manifest", "barrier_batch_id", "bytes_total")
        assert all(getattr(there.completed[id], field) == getattr(entry, field) for field in same)
    assert [failed.failure for failed in there.failed] == [failed.failure for failed in here.failed]
    assert there.lineage == here.lineage


def test_a_repeated_copy_sends_only_what_is_new_and_retires_what_the_source_has_retired(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    before = tree(source.to / "orders")
    code, report = copy(capsys, source, "--all")
    assert (code, report["checkpoints"], report["objects"], report["present"]) == (0, [], 0, [1, 3])
    assert tree(source.to / "orders") == before, "nothing to do is nothing done"
    source.checkpoint(4)
    source.history.retire(3)
    code, report = copy(capsys, source, "--all")
    assert (code, report["checkpoints"], report["retired"]) == (0, [4], [3])
    assert report["bytes"] < 2 * MIB, "one new blob and one small pack"
    assert [entry.id for entry in source.target_state().restorable()] == [4, 1]
    assert len(source.target_state().failed) == 1


def test_a_source_that_lost_its_checkpoints_does_not_take_the_copies_with_it(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source, "--all")
    source.history.retire(3)
    code, report = copy(capsys, source, "--all")
    assert (code, report["retired"]) == (0, [])
    assert [entry.id for entry in source.target_state().restorable()] == [3, 1]


def test_a_dry_run_says_what_is_missing_and_writes_nothing(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    code, report = copy(capsys, source, "--all", "--dry-run")
    assert (code, report["checkpoints"], report["dry_run"]) == (0, [1, 3], True)
    assert tree(source.to) == {}
    done = copy(capsys, source, "--all")[1]
    assert (done["objects"], done["bytes"]) == (report["objects"], report["bytes"])
    assert copy(capsys, source, "--all", "--dry-run")[1]["objects"] == 0


class BreaksAfter(LocalStore):
    """A target that goes away after some uploads."""

    def __init__(self, root: Path, uploads: int) -> None:
        super().__init__(root)
        self.left = uploads

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        if self.left <= 0:
            raise StorageUnreachable("could not upload: gone")
        self.left -= 1
        super().upload(key, chunks)


def test_a_copy_that_was_cut_off_anywhere_looks_incomplete_and_goes_on_where_it_was(source: Source) -> None:
    uploads, sent = 0, -1
    while True:
        (source.to / "orders").mkdir(exist_ok=True)
        broken = JobHome(JobName("orders"), "file:///broken", BreaksAfter(source.to / "orders", uploads))
        entries = sorted(source.history.state().restorable(), key=lambda entry: entry.id)
        try:
            copied = Copy(source.place(), broken, no_progress).run(entries, whole=True)
        except StorageUnreachable:
            state = source.target_state()
            for entry in state.restorable():
                assert verify(source.target().store, entry.id, entry.manifest).corrupt == ()
            now = sum(1 for path in (source.to / "orders").rglob("*.*") if path.parent.name != "journal")
            assert now >= sent, "what was sent stays sent"
            sent, uploads = now, 1
            continue
        break
    assert len(copied.checkpoints) <= 2
    assert [entry.id for entry in source.target_state().restorable()] == [3, 1]
    assert main(["verify", "--home", f"file://{source.to}"]) == 0


@pytest.mark.parametrize("kind", ["blobs", "packs", "manifests"])
def test_damage_in_the_source_is_not_copied(source: Source, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    newest = source.history.state().completed[CheckpointId(3)]
    for path in (source.path / "orders" / kind).rglob("*"):
        if path.is_file() and (kind != "manifests" or path.name == newest.manifest):
            flip_one_byte(path)
    assert main(source.arguments("--all")) == 4
    assert "damaged" in capsys.readouterr().err
    copied = [entry.id for entry in source.target_state().restorable()]
    assert copied == ([1] if kind == "manifests" else [])
    assert main(source.arguments("--checkpoint", "3")) == 4
    stored = (path for path in source.to.rglob("*") if path.is_file())
    for path in (path for path in stored if path.parent.name not in ("journal", "orders")):
        assert digest_of(path.read_bytes()) == path.name.partition(".")[0]


def test_what_is_marked_as_damaged_is_not_copied(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    source.history.damage(3)
    assert main(source.arguments("--checkpoint", "3")) == 4
    assert copy(capsys, source)[1]["checkpoints"] == [1]


# --- against retention ---


def retiring_first(source: Source, id: int) -> Any:
    """Retires and deletes a checkpoint when its copy begins."""

    @contextmanager
    def progress(load: Any) -> Iterator[Any]:
        if load.entry.id == id and id not in source.history.state().retired:
            source.history.retire(id)
            for stored in load.missing:
                (source.path / "orders" / stored.key).unlink()
        yield lambda size: None

    return progress


def test_a_checkpoint_retired_while_it_is_copied_is_told_and_the_rest_goes_on(source: Source) -> None:
    source.checkpoint(4)
    entries = sorted(source.history.state().restorable(), key=lambda entry: entry.id)
    (source.path / "orders" / "keep").mkdir()
    copied = Copy(source.place(), source.target(), retiring_first(source, 3)).run(entries[1:2], whole=False)
    assert (copied.vanished, copied.checkpoints, copied.damaged) == ([3], [], {})
    assert source.target_state().restorable() == []


def test_the_newest_is_chosen_again_when_it_was_retired_meanwhile(
    source: Source, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = retiring_first(source, 3)

    @contextmanager
    def and_makes_a_newer_one(load: Any) -> Iterator[Any]:
        with progress(load) as advance:
            if load.entry.id == 3:
                shutil.rmtree(source.work)
                write(source.work, {"metadata": b"other", "offsets/13": b"other"})
                source.checkpoint(4)
            yield advance

    monkeypatch.setattr("holdfast.cli.copy._progress", and_makes_a_newer_one)
    assert main(source.arguments()) == 0
    assert [entry.id for entry in source.target_state().restorable()] == [4]
    assert main(source.arguments("--checkpoint", "3")) == 3


# --- whose the target is ---


def test_a_target_that_is_another_job_is_refused_by_name(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    other = History(source.to)
    other.journal.claim(lambda stamp: claimed(stamp, lineage="another life"))
    before = tree(source.to)
    for more in ((), ("--dry-run",)):
        assert main(source.arguments(*more)) == 2
        said = capsys.readouterr().err
        assert "another job, last owned by host build-9" in said
        assert "--as" in said
    assert {path: data for path, data in tree(source.to).items() if "probe" not in path} == before


def test_a_target_that_has_run_on_its_own_is_refused(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    copy(capsys, source)
    copied = History(source.to)
    copied.journal.load()
    copied.run()
    copied.end()
    assert main(source.arguments()) == 2
    assert "has run on its own" in capsys.readouterr().err


def test_a_target_that_somebody_owns_is_refused(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    copy(capsys, source)
    copied = History(source.to)
    copied.journal.load()
    alive = current_process()
    copied.journal.claim(lambda stamp: claimed(stamp, lineage="lineage", purpose="maintenance", process=alive))
    copied.beat()
    assert main(source.arguments("--all")) == 5
    assert f"pid {alive.pid}" in capsys.readouterr().err


def test_a_job_is_not_copied_onto_itself(source: Source) -> None:
    before = tree(source.path)
    assert main([*source.arguments()[:-1], f"file://{source.path}"]) == 2
    assert tree(source.path) == before
    assert main([*source.arguments()[:-1], f"file://{source.path}", "--as", "orders-2"]) == 0


@pytest.mark.parametrize("wrong", [("--all", "--checkpoint", "1"), ("--as", "../x"), ("--checkpoint", "0")])
def test_wrong_usage_exits_2(source: Source, wrong: tuple[str, ...]) -> None:
    assert main(source.arguments(*wrong)) == 2


def claimed(stamp: Stamp, **fields: Any) -> Any:
    from holdfast.repository.entries import Process, RunStarted

    return RunStarted(
        **stamp,
        process=fields.pop("process", Process("build-9", 99, boot_id="another")),
        heartbeat_s=5.0,
        work="/work",
        holdfast="0.1.0",
        **fields,
    )


# --- numbers ---


def test_a_run_over_the_copy_has_a_higher_epoch_than_any_run_over_the_source(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    copy(capsys, source)
    assert source.target_state().runs[0].sequence == 1, "where every first claim contends"
    for _ in range(20):
        source.history.fail(None)
    source.history.run()
    source.checkpoint(5)
    copy(capsys, source, "--all")
    for _ in range(20):
        source.history.fail(None)
    source.history.run()  # after the last copy
    copied = History(source.to)
    copied.journal.load()
    assert copied.run() > source.history.state().head
    assert copied.run() > copied.state().runs[-2].sequence


def test_whoever_stalled_below_the_jump_is_fenced(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    stalled = History(source.to)
    stalled.journal.claim(lambda stamp: claimed(stamp, lineage="lineage", purpose="maintenance"))
    stalled.end()
    late = History(source.to)
    late.journal.load()
    copy(capsys, source)
    with pytest.raises(Fenced):
        stalled.fail(None)
    with pytest.raises(Fenced):
        late.run()
    numbers = [entry.sequence for entry in read_entries(source.target().store)]
    head = source.history.state().head
    assert numbers == [1, 2, 3, head + COPY_LEAD, head + COPY_LEAD + 1]
    assert not (source.to / "orders" / entry_key(4)).exists()


def test_recovery_resumes_from_a_copy(source: Source, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy(capsys, source)
    copied = History(source.to)
    copied.journal.load()
    copied.run(current_process())
    workplace = JobFolder(
        work_directory(tmp_path / "elsewhere"),
        WorkMarker(job=JobName("orders"), home=f"file://{source.to}", lineage="lineage"),
    )
    resumed = Recovery(copied.store, copied.journal, workplace).resume(local=True)
    assert (resumed.checkpoint, resumed.durable) == (3, 12)
    assert tree(Path(resumed.directory.location)) == tree(source.work)


class Recorded:
    """A sink that shows nothing but what it was told."""

    def __init__(self, published: int | None) -> None:
        self._published = published
        self.told: list[tuple[str, Any]] = []

    def describe(self) -> str:
        return "recorded:"

    def published(self) -> int | None:
        return self._published

    def publish(self, upto: int, ledger: tuple[StagedBatch, ...]) -> None:
        self.told.append(("publish", [batch.batch_id for batch in ledger]))

    def rewind(self, upto: int | None) -> None:
        self.told.append(("rewind", upto))

    def discard(self, keep: tuple[StagedBatch, ...]) -> None:
        pass


@pytest.mark.parametrize(
    ("published", "copied", "told"),
    [
        (None, True, ("publish", [])),
        (10, True, ("publish", [11, 12])),
        (14, True, ("rewind", 12)),
        (None, False, ("publish", [11, 12])),
    ],
)
def test_a_new_sink_begins_after_the_copy_and_the_old_one_goes_on(
    source: Source,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    published: int | None,
    copied: bool,
    told: tuple[str, Any],
) -> None:
    for batch in (11, 12):
        staged = StagedBatch(BatchId(batch), FencingEpoch(1), ())
        write(source.work, {f"ledger/{batch}.json": msgspec.json.encode(staged)})
    source.checkpoint(4)
    copy(capsys, source)
    history = History(source.to) if copied else source.history
    history.journal.load()
    history.run(current_process())
    workplace = JobFolder(
        work_directory(tmp_path / "elsewhere"), WorkMarker(job=JobName("orders"), home="file:///any", lineage="lineage")
    )
    resumed = Recovery(history.store, history.journal, workplace).resume(local=False)
    assert is_copied(history.state(), resumed.durable_id) is copied
    sink = Recorded(published)
    align_sink(sink, resumed, new_place=copied and published is None)  # type: ignore[arg-type]
    assert sink.told == [told]


@pytest.mark.parametrize("kind", ["blobs", "packs", "manifests"])
def test_what_was_found_damaged_in_the_copy_is_made_whole_from_the_source(
    source: Source, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    copy(capsys, source, "--all")
    sound = {path: data for path, data in tree(source.to).items() if "journal" not in path and "owner" not in path}
    for path in (source.to / "orders" / kind).rglob("*"):
        if path.is_file():
            flip_one_byte(path)
    home = ["--home", f"file://{source.to}"]
    assert main(["verify", *home, "--repair"]) == 4
    capsys.readouterr()
    assert source.target_state().restorable() == []
    code, report = copy(capsys, source, "--all")
    assert (code, report["repaired"], report["checkpoints"]) == (0, [1, 3], [])
    assert {path: data for path, data in tree(source.to).items() if path in sound} == sound
    assert [entry.id for entry in source.target_state().restorable()] == [3, 1]
    assert main(["verify", *home]) == 0


def test_a_savepoint_of_an_abandoned_history_is_not_copied(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    source.checkpoint(4, name="given-up")
    source.history._append(WentBack, chosen=CheckpointId(3), abandoned=(CheckpointId(4),), asked="checkpoint 3")
    assert main(source.arguments("--savepoint", "given-up")) == 2
    assert "abandoned history" in capsys.readouterr().err
    assert copy(capsys, source, "--all")[1]["checkpoints"] == [1, 3]
