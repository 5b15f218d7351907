"""What retention deletes, and what it must keep."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.manifest import FORMAT, Manifest, ManifestFile, ManifestShard, pack_key
from holdfast.identifiers import (
    CONTROL_SHARD,
    AttemptId,
    BatchId,
    CheckpointId,
    Digest,
    FencingEpoch,
    Sequence,
)
from holdfast.repository import retention
from holdfast.repository.collection import (
    SparsePack,
    Unneeded,
    Why,
    sparse_packs,
    stale_temporaries,
    unneeded_objects,
)
from holdfast.repository.entries import (
    AnyEntry,
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointsRetired,
    CheckpointStarted,
    Process,
    Retention,
    RunEnded,
    RunStarted,
    WentBack,
)
from holdfast.repository.retention import checkpoints_to_retire, entries_to_drop, in_grace, plan_fold
from holdfast.repository.state import JobState
from holdfast.storage.interface import StoredObject
from tests.unit.job_histories import History

NOW = datetime(2026, 1, 1, tzinfo=UTC)
EPOCH = FencingEpoch(1)


class Life:
    """Entries of one run, one after the other."""

    def __init__(self) -> None:
        self.entries: list[AnyEntry] = []
        self.now = NOW
        self.start_run()

    def start_run(self) -> None:
        self.epoch = FencingEpoch(len(self.entries) + 1)
        self.add(RunStarted, lineage="life", process=Process("host", 1), heartbeat_s=5.0, work="", holdfast="")

    def add(self, kind: type, **fields: object) -> None:
        sequence = Sequence(len(self.entries) + 1)
        common = {
            "sequence": sequence,
            "attempt": AttemptId(str(sequence)),
            "fencing_epoch": self.epoch,
            "at": self.now,
        }
        self.entries.append(kind(**common, **fields))

    def complete(self, id: int, name: str | None = None) -> None:
        kind = "savepoint" if name else "checkpoint"
        common = {"id": CheckpointId(id), "checkpoint_kind": kind, "name": name, "barrier_batch_id": BatchId(id)}
        self.add(CheckpointStarted, **common)
        self.add(
            CheckpointCompleted,
            **common,
            manifest=Digest(f"m{id}"),
            triggered_at=NOW,
            duration_ms=1,
            bytes_total=1,
            bytes_new=1,
            files=1,
            objects_written=1,
            shards=1,
        )

    @property
    def state(self) -> JobState:
        return JobState.of(self.entries)


def test_the_newest_are_kept_and_savepoints_always() -> None:
    life = Life()
    for id in range(1, 6):
        life.complete(id, name="release" if id == 1 else None)
    assert checkpoints_to_retire(life.state, Retention(retained=2)) == (2, 3)


def test_a_damaged_checkpoint_does_not_count_as_kept() -> None:
    life = Life()
    for id in range(1, 5):
        life.complete(id)
    life.add(CheckpointCorrupt, id=CheckpointId(4), detail="flipped")
    assert checkpoints_to_retire(life.state, Retention(retained=2)) == (1,)


def kept(life: Life, rule: Retention) -> list[int]:
    gone = checkpoints_to_retire(life.state, rule)
    return [entry.id for entry in life.state.retained() if entry.id not in gone]


def over_days(minutes_apart: int, count: int) -> Life:
    life = Life()
    for id in range(1, count + 1):
        life.complete(id)
        life.now += timedelta(minutes=minutes_apart)
    return life


def test_of_each_hour_the_newest_is_kept() -> None:
    life = over_days(minutes_apart=20, count=12)  # 00:00 to 03:40, three an hour
    assert kept(life, Retention(retained=1, keep_hourly=3)) == [6, 9, 12]
    assert kept(life, Retention(retained=2, keep_hourly=2)) == [9, 11, 12]
    assert kept(life, Retention(retained=1, keep_hourly=100)) == [3, 6, 9, 12]


def test_of_each_day_the_newest_is_kept_and_days_are_those_of_utc() -> None:
    life = over_days(minutes_apart=8 * 60, count=9)  # three a day
    assert kept(life, Retention(retained=1, keep_daily=2)) == [6, 9]
    assert kept(life, Retention(retained=1, keep_hourly=2, keep_daily=3)) == [3, 6, 8, 9]
    elsewhere = over_days(minutes_apart=8 * 60, count=9)
    zone = timezone(timedelta(hours=-9))
    elsewhere.entries = [msgspec.structs.replace(entry, at=entry.at.astimezone(zone)) for entry in elsewhere.entries]
    assert kept(elsewhere, Retention(retained=1, keep_daily=2)) == [6, 9]


def test_hours_without_a_checkpoint_do_not_count() -> None:
    life = Life()
    for id, hours in enumerate((0, 1, 200, 0, 300), 1):
        life.now += timedelta(hours=hours)
        life.complete(id)
    assert kept(life, Retention(retained=1, keep_hourly=3)) == [2, 4, 5]


def test_a_damaged_checkpoint_is_not_the_one_kept_of_its_hour() -> None:
    life = over_days(minutes_apart=20, count=7)
    life.add(CheckpointCorrupt, id=CheckpointId(6), detail="flipped")
    assert kept(life, Retention(retained=1, keep_hourly=3)) == [3, 5, 7]


RULES = st.builds(Retention, retained=st.integers(1, 4), keep_hourly=st.integers(0, 5), keep_daily=st.integers(0, 4))
HISTORIES = st.lists(st.tuples(st.integers(-90, 2000), st.booleans(), st.booleans()), min_size=1, max_size=40)
"""Minutes to the next checkpoint (clocks go back too), whether it is a savepoint, whether the rule is applied after."""


@given(HISTORIES, RULES)
def test_it_does_not_matter_how_often_the_rule_is_applied(
    history: list[tuple[int, bool, bool]], rule: Retention
) -> None:
    often, once = Life(), Life()
    for id, (minutes, savepoint, applied) in enumerate(history, 1):
        # Only forwards here: an hour that comes back later may lose its newest in between.
        for life in (often, once):
            life.now += timedelta(minutes=abs(minutes))
            life.complete(id, name=f"s{id}" if savepoint else None)
        if applied and (gone := checkpoints_to_retire(often.state, rule)):
            often.add(CheckpointsRetired, ids=gone)
    assert kept(often, rule) == kept(once, rule)


@given(HISTORIES, RULES)
def test_the_rule_keeps_what_it_says_and_no_more(history: list[tuple[int, bool, bool]], rule: Retention) -> None:
    life = Life()
    for id, (minutes, savepoint, _) in enumerate(history, 1):
        life.now += timedelta(minutes=minutes)
        life.complete(id, name=f"s{id}" if savepoint else None)
    stays = kept(life, rule)
    plain = [entry for entry in life.state.retained() if entry.name is None]
    assert {entry.id for entry in life.state.retained() if entry.name} <= set(stays)
    assert {entry.id for entry in plain[-rule.retained :]} <= set(stays)
    newest_of_hour = {f"{entry.at:%F %H}": entry.id for entry in plain}
    newest_of_day = {f"{entry.at:%F}": entry.id for entry in plain}
    assert (
        len([id for id in stays if id in {e.id for e in plain}]) <= rule.retained + rule.keep_hourly + rule.keep_daily
    )
    assert set(sorted(newest_of_hour.values())[-rule.keep_hourly :] if rule.keep_hourly else ()) <= set(stays)
    assert set(sorted(newest_of_day.values())[-rule.keep_daily :] if rule.keep_daily else ()) <= set(stays)


# --- grace ---


def test_a_retired_checkpoint_is_in_its_grace_until_that_is_over() -> None:
    life = over_days(minutes_apart=1, count=3)
    life.add(CheckpointsRetired, ids=(CheckpointId(1),))
    for seconds, left in ((0, 60.0), (59, 1.0), (60, None), (3600, None), (-3600, 60.0)):
        found = in_grace(life.state, 60.0, life.now + timedelta(seconds=seconds))
        assert found == ({} if left is None else {1: left})


def test_an_entry_that_names_objects_in_their_grace_is_not_dropped(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(retention, "HISTORY_KEPT", 1)
    life = over_days(minutes_apart=1, count=4)
    life.add(CheckpointsRetired, ids=(CheckpointId(1), CheckpointId(2)))
    life.add(
        CheckpointStarted, id=CheckpointId(5), checkpoint_kind="checkpoint", name=None, barrier_batch_id=BatchId(5)
    )
    state = life.state.without(entries_to_drop(life.state, {CheckpointId(2): 3.0}))
    assert [*state.completed] == [2, 3, 4]
    assert {*state.retired} == {1, 2}


# --- objects ---


def objects(*keys: str) -> list[StoredObject]:
    return [StoredObject(key, 10, 0.0) for key in keys]


def test_what_nobody_needs_is_told_with_the_reason() -> None:
    stored = objects("blobs/kept.1", "blobs/retired.1", "blobs/in grace.1", "blobs/orphan.1")
    retired = {"blobs/kept.1": 0.0, "blobs/retired.1": 0.0, "blobs/in grace.1": 5.0}
    assert [*unneeded_objects(stored, {"blobs/kept.1"}, retired)] == [
        Unneeded("blobs/retired.1", 10, Why.RETIRED),
        Unneeded("blobs/in grace.1", 10, Why.RETIRED, 5.0),
        Unneeded("blobs/orphan.1", 10, Why.ORPHAN),
    ]


def test_a_temporary_is_stale_after_a_day() -> None:
    found = [StoredObject("old", 1, 0.0), StoredObject("new", 1, 10.0)]
    assert [item.key for item in stale_temporaries(found, 86_405.0)] == ["old"]


def packed(*sizes_by_pack: tuple[str, Iterable[int]]) -> Manifest:
    files = []
    for pack, sizes in sizes_by_pack:
        offset = 0
        for size in sizes:
            digest = Digest(f"{pack}{offset}+{size}")
            files += [ManifestFile(f"{digest}/{twin}", size, digest, EPOCH, Digest(pack), offset) for twin in "ab"]
            offset += size
    return Manifest(FORMAT, "job", CheckpointId(1), BatchId(1), EPOCH, (ManifestShard(CONTROL_SHARD, tuple(files)),))


def test_a_pack_of_which_less_than_a_quarter_is_needed_is_sparse() -> None:
    """Files with the same bytes lie in a pack once; an empty file lies where another begins."""
    manifest = packed(("little", [0, 24]), ("a quarter", [10, 15]), ("pinned", [1]), ("new", [1]))
    sizes = {pack_key(Digest(name), EPOCH): 100 for name in ("little", "a quarter", "pinned", "unnamed")}
    (sparse,) = sparse_packs(manifest, sizes, {pack_key(Digest("pinned"), EPOCH)})
    assert sparse == SparsePack(pack_key(Digest("little"), EPOCH), 100, 24)


# --- folding ---


def test_a_fold_keeps_retained_checkpoints_the_newest_run_and_the_highest_id(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(retention, "HISTORY_KEPT", 1)
    life = Life()
    for id in range(1, 5):
        life.complete(id)
    life.add(CheckpointsRetired, ids=(CheckpointId(1), CheckpointId(2)))
    dropped = entries_to_drop(life.state, ())
    kept = life.state.without(dropped)
    assert dropped
    assert kept.run == life.state.run
    assert [entry.id for entry in kept.restorable()] == [4, 3]
    assert kept.last_checkpoint == 4
    assert kept.head == life.state.head
    assert kept.retained() == life.state.retained()


def test_runs_are_bounded_and_those_that_made_a_retained_checkpoint_stay(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(retention, "HISTORY_KEPT", 1)
    life = Life()
    first = life.state.fencing_epoch
    life.complete(1)
    for _ in range(1500):
        life.add(RunEnded, reason="stopped")
        life.start_run()
    kept = life.state.without(entries_to_drop(life.state, ()))
    assert len(kept.runs) == retention.RUNS_KEPT + 1
    assert kept.runs[0].fencing_epoch == first
    assert kept.previous_run == life.state.previous_run
    assert len(kept.sequences) < 50


def test_a_journal_is_not_folded_for_little() -> None:
    life = Life()
    for id in range(1, retention.HISTORY_KEPT // 2 + 20):
        life.complete(id)
        if id > 1:
            life.add(CheckpointsRetired, ids=(CheckpointId(id - 1),))
    assert len(life.state.sequences) > retention.HISTORY_KEPT
    assert plan_fold(life.state, ()) is None


def test_a_run_that_went_back_keeps_saying_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fold dropped the entry, and a start with the same arguments went back a second time."""
    monkeypatch.setattr(retention, "HISTORY_KEPT", 1)
    history = History(tmp_path)
    history.run()
    history.complete(1, batch=1)
    history._append(WentBack, chosen=CheckpointId(1), abandoned=(), asked="checkpoint 1", published=None)
    history.complete(2, batch=2)
    history.complete(3, batch=3)
    state = history.journal.state
    assert state.went_back is not None
    assert state.went_back.sequence not in entries_to_drop(state, ())
