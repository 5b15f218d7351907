"""The background scrub on a real home: everything is read once per period, damage is repaired, marked and told."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.coordination.events import CheckpointDamaged
from holdfast.errors import InvalidSettings, ObjectNotFound, StorageUnreachable
from holdfast.identifiers import AttemptId, CheckpointId, FencingEpoch, Sequence
from holdfast.repository.blobs import Blobs
from holdfast.repository.chain import fold_key
from holdfast.repository.entries import Process, RunStarted
from holdfast.repository.entry_bytes import encode_entry
from holdfast.repository.folding import clear_folded
from holdfast.repository.journal import entry_key
from holdfast.repository.last_verified import read_last_verified
from holdfast.repository.verification import verify
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.job_folder import RunFolder
from holdfast.runtime.upkeep.scrubbing import DAMAGED, Scrubbing
from holdfast.settings import Settings
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History, complete_with_bytes
from tests.unit.test_cli_restore_verify import flip_one_byte
from tests.unit.work_files import MIB, RecordingStore, copied, tree, write

PERIOD = 1000.0


class ManualClock:
    now = 5000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)


class Lanes:
    """Work waits until the test does it."""

    def __init__(self) -> None:
        self.waiting: list[tuple[str, Callable[[], None]]] = []

    def submit(self, lane: str, work: Callable[[], None]) -> None:
        self.waiting.append((lane, work))

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)[1]()


class Scrubbed:
    """A job with two checkpoints that share a blob and a pack, and its scrub."""

    def __init__(self, tmp_path: Path) -> None:
        self.home = tmp_path / "home" / "orders"
        self.history = History(tmp_path / "home")
        self.home.mkdir()
        self.store = RecordingStore(self.home)
        self.directory = tmp_path / "work"
        self.blobs = Blobs(self.history.store, self.history.run())
        write(self.directory, {"commits/12": b"c" * 99, "offsets/12": b"o" * 99, "state/1.sst": b"1" * MIB})
        complete_with_bytes(self.history, 1, self.directory, self.blobs)
        write(self.directory, {"state/2.sst": b"2" * MIB})
        complete_with_bytes(self.history, 2, self.directory, self.blobs)
        self.manifests = Manifests()
        for entry in self.history.state().completed.values():
            self.manifests.add(entry.id, self._manifest(entry))
            self.blobs.commit_manifest(self.manifests[entry.id])
        self.clock, self.lanes = ManualClock(), Lanes()
        self.events: list[Any] = []
        self.alarms: list[tuple[str, str, str]] = []
        self.scrubbing = self.new(PERIOD)

    def _manifest(self, entry: Any) -> Manifest:
        return decode_manifest(self.history.store.get(manifest_key(entry.manifest)), entry.manifest)

    def new(self, period: float | None, begin_at: float = 0.0) -> Scrubbing:
        return Scrubbing(
            store=self.store,
            journal=self.history.journal,
            blobs=self.blobs,
            manifests=self.manifests,
            period=period,
            begin_at=begin_at,
            clock=self.clock,
            lanes=self.lanes,
            post=lambda item: item() if callable(item) else self.events.append(item),
            raise_alarm=lambda code, severity, message, hint: self.alarms.append((code, severity, message)),
            clear_alarm=lambda code, message: self.alarms.append((code, "cleared", message)),
        )

    def pass_time(self, seconds: float, *, busy: bool = False, step: float = 0.5) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.scrubbing.poll(
                self.clock.now, RunFolder(work_directory(self.directory.parent), self.directory.name), busy=busy
            )
            self.lanes.work()
            self.clock.now += step

    @property
    def objects(self) -> list[str]:
        return [item.key for item in self.store.list("")]

    def blob(self, byte: bytes) -> Path:
        (path,) = (p for p in (self.home / "blobs").rglob("*.*") if p.read_bytes()[:1] == byte)
        return path


def claimed(sequence: int) -> RunStarted:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return RunStarted(
        sequence=Sequence(sequence),
        attempt=AttemptId("newer"),
        fencing_epoch=FencingEpoch(sequence),
        at=at,
        lineage="lineage",
        process=Process("h", 1),
        heartbeat_s=5.0,
        work="/work",
        holdfast="test",
    )


@pytest.fixture
def job(tmp_path: Path) -> Scrubbed:
    return Scrubbed(tmp_path)


def test_every_object_is_read_once_per_period_spread_over_it(job: Scrubbed) -> None:
    job.pass_time(PERIOD * 0.5)
    assert 0 < len(job.store.requests) < len(job.objects)
    job.pass_time(PERIOD * 0.49)
    assert sorted(job.store.requests) == sorted(job.objects)
    job.pass_time(PERIOD)
    assert sorted(job.store.requests) == sorted(job.objects * 2)
    assert [alarm[1] for alarm in job.alarms] == ["cleared"]


def test_a_whole_lap_without_damage_is_noted_with_its_beginning(job: Scrubbed) -> None:
    """The first lap begins anywhere, so it reads no checkpoint whole."""
    ids = {entry.manifest for entry in job.history.state().retained()}
    job.pass_time(PERIOD * 1.5)
    assert read_last_verified(job.store) == {}
    began = job.clock.wall()
    job.pass_time(PERIOD)
    noted = read_last_verified(job.store)
    assert noted.keys() == ids
    assert all(at < began for at in noted.values())


def test_a_lap_that_finds_damage_is_not_noted(job: Scrubbed) -> None:
    job.pass_time(PERIOD * 1.5)
    job.blob(b"2").write_bytes(b"x" * MIB)
    job.pass_time(PERIOD)
    assert read_last_verified(job.store) == {}


def test_it_begins_somewhere_else_after_each_restart(job: Scrubbed) -> None:
    first = []
    for begin_at in (0.0, 0.3, 0.6, 0.9):
        job.scrubbing = job.new(PERIOD, begin_at)
        job.store.requests.clear()
        job.pass_time(1)
        first.append(job.store.requests[0])
    assert len(set(first)) > 1


def test_off_is_off(job: Scrubbed) -> None:
    job.scrubbing = job.new(None)
    job.pass_time(PERIOD * 10, step=10)
    assert job.store.requests == []


def test_it_waits_for_a_checkpoint_but_not_for_ever(job: Scrubbed) -> None:
    job.pass_time(PERIOD * 0.2, busy=True)
    assert job.store.requests == []
    job.pass_time(PERIOD * 0.1, busy=True)
    assert job.store.requests != []


def test_only_one_step_is_under_way(job: Scrubbed) -> None:
    for _ in range(3):
        job.scrubbing.poll(
            job.clock.now, RunFolder(work_directory(job.directory.parent), job.directory.name), busy=False
        )
        job.clock.now += PERIOD
    assert len(job.lanes.waiting) == 1


def test_damage_is_repaired_from_the_work_directory_and_told(job: Scrubbed) -> None:
    sound = tree(job.home)
    for path in [
        *(job.home / "blobs").rglob("*.*"),
        *(job.home / "packs").iterdir(),
        *(job.home / "manifests").iterdir(),
    ]:
        flip_one_byte(path)
    job.pass_time(PERIOD)
    assert tree(job.home) == sound
    assert {(code, severity) for code, severity, _ in job.alarms} == {(DAMAGED, "warning")}
    assert all("is repaired" in message for *_, message in job.alarms)
    assert job.history.state().corrupt == {}
    job.alarms.clear()
    job.pass_time(PERIOD * 2)
    assert [severity for _, severity, _ in job.alarms] == ["cleared"]


def test_a_missing_manifest_is_written_again_by_the_run_that_knows_it(job: Scrubbed) -> None:
    sound = tree(job.home)
    for path in (job.home / "manifests").iterdir():
        path.unlink()
    job.pass_time(PERIOD)
    assert tree(job.home) == sound


def test_what_cannot_be_repaired_is_marked_told_and_not_referred_to_any_more(job: Scrubbed) -> None:
    flip_one_byte(job.blob(b"2"))
    write(job.directory, {"state/2.sst": b"changed since"})
    job.pass_time(PERIOD)
    state = job.history.state()
    assert set(state.corrupt) == {2}
    assert state.passed_over == frozenset()
    assert job.events == [CheckpointDamaged(CheckpointId(2))]
    ((code, severity, message),) = job.alarms
    assert (code, severity) == (DAMAGED, "warning")
    assert "1 are left" in message
    job.pass_time(PERIOD * 2)
    assert len(job.events) == 1, "told once"
    assert [alarm for alarm in job.alarms if alarm[1] == "cleared"] == [], "as long as it is there"
    write(job.directory, {"state/2.sst": b"2" * MIB})
    copied(job.directory, job.blobs)
    assert verify(job.store, CheckpointId(2), state.completed[CheckpointId(2)].manifest).corrupt == (), "uploaded anew"
    job.pass_time(PERIOD)
    assert job.history.state().corrupt == {}, "and so the checkpoint is sound again"


def test_the_alarm_is_critical_when_nothing_is_left(job: Scrubbed) -> None:
    flip_one_byte(job.blob(b"1"))
    write(job.directory, {"state/1.sst": b"changed since"})
    job.pass_time(PERIOD)
    assert set(job.history.state().corrupt) == {1, 2}
    assert [severity for _, severity, _ in job.alarms] == ["critical"]


def test_a_checkpoint_completed_meanwhile_that_names_the_object_is_marked_too(job: Scrubbed) -> None:
    flip_one_byte(job.blob(b"1"))
    write(job.directory, {"state/1.sst": b"changed since"})
    job.pass_time(PERIOD)
    write(job.directory, {"state/1.sst": b"1" * MIB})
    under_way = job.manifests[CheckpointId(2)]
    job.history.complete(3, manifest=job.history.state().completed[CheckpointId(2)].manifest)
    job.manifests.add(CheckpointId(3), under_way)
    write(job.directory, {"state/1.sst": b"changed since"})
    job.pass_time(PERIOD)
    assert set(job.history.state().corrupt) == {1, 2, 3}


def test_what_reads_deny_and_a_listing_shows_is_no_damage(job: Scrubbed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulation, seed 2453: a gateway denied sound objects for a second. They were uploaded again, or their
    checkpoints marked."""
    write(job.directory, {"state/2.sst": b"changed since"})
    wanted = job.history.state().completed[CheckpointId(2)].manifest
    for denied in (job.blob(b"2").relative_to(job.home).as_posix(), f"manifests/{wanted}"):
        with monkeypatch.context() as patch:
            denying(patch, job.store, denied)
            job.pass_time(PERIOD)
            with pytest.raises(StorageUnreachable, match="listed"):
                verify(job.store, CheckpointId(2), wanted)
            (unreadable,) = verify(job.store, CheckpointId(2), wanted, go_on=True).unreadable
            assert unreadable.path == denied
    assert job.history.state().corrupt == {}
    assert [alarm for alarm in job.alarms if alarm[1] != "cleared"] == []
    assert verify(job.store, CheckpointId(2), wanted).sound


def denying(patch: pytest.MonkeyPatch, store: RecordingStore, denied: str) -> None:
    get, stream = store.get, store.stream

    def require_not(key: str) -> None:
        if key == denied:
            raise ObjectNotFound(f"could not read {key}: a gateway says 404")

    def get_unless(key: str) -> bytes:
        require_not(key)
        return get(key)

    def stream_unless(key: str) -> Iterator[bytes]:
        require_not(key)
        return stream(key)

    patch.setattr(store, "get", get_unless)
    patch.setattr(store, "stream", stream_unless)


def test_a_home_that_cannot_be_read_is_no_damage(job: Scrubbed) -> None:
    job.home.parent.rename(job.home.parent.with_name("away"))
    job.pass_time(PERIOD)
    job.home.parent.with_name("away").rename(job.home.parent)
    assert job.history.state().corrupt == {}
    assert job.alarms == []
    job.pass_time(PERIOD * 1.1)
    assert set(job.store.requests) == set(job.objects)


@pytest.mark.parametrize("value", ["often", "0s", 7])
def test_a_period_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InvalidSettings, match="scrub"):
        Settings(scrub=value)  # type: ignore[arg-type]


def test_an_entry_of_the_journal_that_is_damaged_or_lost_is_written_again(job: Scrubbed) -> None:
    sound = tree(job.home)
    for sequence in (1, 2):
        flip_one_byte(job.home / entry_key(sequence))
    job.pass_time(PERIOD)
    assert tree(job.home) == sound
    assert [(code, severity) for code, severity, _ in job.alarms] == [(DAMAGED, "warning")] * 2
    (job.home / entry_key(2)).unlink()
    job.pass_time(PERIOD)
    assert tree(job.home) == sound


def test_of_a_journal_that_was_folded_only_what_is_left_is_looked_after(job: Scrubbed) -> None:
    upto = job.history.state().head
    job.history.journal.fold(frozenset(), Sequence(0))
    clear_folded(job.history.store, upto)
    sound = tree(job.home)
    job.pass_time(PERIOD)
    assert tree(job.home) == sound, "what the fold stands for is not brought back"
    flip_one_byte(job.home / fold_key(upto))
    job.pass_time(PERIOD)
    assert tree(job.home) == sound
    (job.home / fold_key(upto)).unlink()
    job.pass_time(PERIOD)
    assert tree(job.home) == sound


def test_a_run_that_is_fenced_puts_no_entry_back(job: Scrubbed) -> None:
    flip_one_byte(job.home / entry_key(2))
    sound = (job.home / entry_key(2)).read_bytes()
    newer = job.history.state().head + 1
    job.store.put(entry_key(newer), encode_entry(claimed(newer)))
    job.pass_time(PERIOD)
    assert (job.home / entry_key(2)).read_bytes() == sound
