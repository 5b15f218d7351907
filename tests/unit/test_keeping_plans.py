"""A plan is durable before the batch runs, or the batch waits, or somebody is told: `runtime/plans/keeping.py`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.errors import Fenced, HomeReplaced, InvalidSettings, StorageError, StorageUnreachable
from holdfast.identifiers import AttemptId, BatchId, JobName
from holdfast.plans.log import PlanLog, plan_batches
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_folder, plan_key
from holdfast.runtime.plans.keeping import CONFLICT, LATE, PlanKeeper, PlannedOtherwise, mode_of
from holdfast.runtime.reports.alarms import Alarms, AtOnce
from holdfast.storage.faulty import Faults, FaultyStore
from tests.unit.job_histories import History
from tests.unit.test_plans import Folder, plan

AWAY = Faults(before=1.0)
OFFSETS = b'v1\n{"batchWatermarkMs":0}\n7'


class NoLane:
    """Work is done when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, lane: str, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return datetime.now(UTC)


class Kept:
    """A keeper over a real home that can be away."""

    def __init__(self, root: Path, mode: Any) -> None:
        self.history = History(root / "home")
        self.history.run()
        self.store = FaultyStore(self.history.store, Faults())
        self.lanes, self.clock = NoLane(), Clock()
        self.told: list[tuple[str, bool]] = []
        self.hints: list[str] = []
        self.slept = 0
        attempts = iter(range(1000))
        alarms = Alarms(JobName("orders"), [self._hear], _Wall(), AtOnce)
        self.keeper = PlanKeeper(
            store=self.store,
            journal=self.history.journal,
            mode=mode,
            new_attempt=lambda: AttemptId(f"attempt-{next(attempts)}"),
            alarms=alarms,
            clock=self.clock,  # type: ignore[arg-type]
            lanes=self.lanes,  # type: ignore[arg-type]
            post=lambda act: act(),
            sleep=self._sleep,
        )
        folder = Folder(root / "work")
        folder.write_atomic("metadata", b'{"id":"query"}')
        self.keeper.begin(folder, None)

    def _hear(self, alarm: Any) -> None:
        self.told.append((alarm.code, not alarm.cleared))
        self.hints.append(alarm.hint)

    def _sleep(self, seconds: float) -> None:
        self.slept += 1
        self.clock.now += seconds
        self.store.faults = Faults()  # it comes back

    def keep(self, batch: int, *, stopping: bool = False) -> None:
        self.keeper.keep(BatchId(batch), OFFSETS, lambda: stopping)

    def ship(self) -> None:
        self.clock.now += 10.0
        self.keeper.poll()
        self.lanes.work()

    def standing(self) -> list[int]:
        log = PlanLog(self.history.store, line_folder(self.history.state()))
        return [found.batch_id for found in log.behind(None).plans]

    def planned(self) -> frozenset[BatchId]:
        return plan_batches(self.history.store, line_folder(self.history.state()))

    def by_another(self, batch: int, epoch: int) -> None:
        folder = line_folder(self.history.state())
        other = plan(batch, "another")
        PlanLog(self.history.store, folder).create(type(other)(**{**_fields(other), "fencing_epoch": epoch}))


def _fields(of: Any) -> dict[str, Any]:
    return {name: getattr(of, name) for name in of.__struct_fields__}


class _Wall:
    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> Any:
        return datetime.now(UTC)


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_a_batch_that_may_run_has_its_plan_in_the_home(tmp_path: Path, mode: str) -> None:
    kept = Kept(tmp_path, mode)
    kept.keep(0)
    kept.keep(1)
    assert kept.standing() == [0, 1]
    assert kept.told == []


def test_how_long_a_batch_ran_is_known_when_it_is_committed(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    for batch in range(3):
        kept.keep(batch)
        kept.clock.now += 2.0
    assert [kept.keeper.ran_s(BatchId(batch)) for batch in (0, 2, 3)] == [6.0, 2.0, None]


def test_a_home_that_is_away_holds_no_batch_up_and_gets_the_plans_later(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.keep(0)
    kept.store.faults = AWAY
    kept.keep(1)
    kept.keep(2)
    assert kept.standing() == [0]
    assert kept.keeper.late_since == 1
    assert kept.told == [(LATE, True)]
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.keeper.late_since == 1, "it is still away"
    kept.store.faults = Faults()
    kept.keep(3)
    assert kept.standing() == [0], "those before it come first"
    kept.clock.now += 10.0
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.standing() == [0, 1, 2, 3]
    assert kept.told == [(LATE, True), (LATE, False)]
    kept.keep(4)
    assert kept.standing()[-1] == 4


def test_the_journal_tells_which_batches_went_on_without_a_durable_plan(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.keep(0)
    kept.store.faults = AWAY
    kept.keep(1)
    kept.keep(2)
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.history.state().plans_late is None, "it is not over"
    kept.store.faults = Faults()
    kept.clock.now += 10.0
    for _ in range(2):
        kept.keeper.poll()
        kept.lanes.work()
    late = kept.history.state().plans_late
    assert late is not None
    assert (late.first, late.last) == (1, 2)
    assert late.since is not None
    head = kept.history.state().head
    kept.keep(3)
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.history.state().head == head, "it is told once"


def test_a_plan_that_is_required_is_waited_for(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    kept.store.faults = AWAY
    kept.keep(0)
    assert kept.slept == 1
    assert kept.standing() == [0]
    assert kept.told == [(LATE, True), (LATE, False)]
    assert "require" not in kept.hints[0], "it is what they have"


def test_a_stop_ends_the_waiting_and_the_batch_does_not_run(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    kept.store.faults = AWAY
    with pytest.raises(StorageError):
        kept.keep(0, stopping=True)
    assert kept.standing() == []


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_a_batch_that_was_planned_otherwise_does_not_run(tmp_path: Path, mode: str) -> None:
    kept = Kept(tmp_path, mode)
    kept.by_another(0, epoch=kept.history.journal.fencing_epoch)
    with pytest.raises(PlannedOtherwise):
        kept.keep(0)
    kept.by_another(1, epoch=kept.history.journal.fencing_epoch + 1)
    with pytest.raises(Fenced):
        kept.keep(1)


def test_a_run_that_slept_while_its_plan_was_made_and_deleted_finds_out(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    successor = History(kept.history.home, attempts="successor")
    successor.journal.load()
    successor.run()  # it has planned batch 0, and deleted the plan since
    with pytest.raises(Fenced):
        kept.keep(0)


def test_a_batch_waits_seconds_for_a_proof_and_goes_on_without_where_plans_are_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_away(journal: Journal) -> None:
        raise StorageUnreachable("no connection")

    monkeypatch.setattr(Journal, "require_standing", is_away)
    kept = Kept(tmp_path, "prefer")
    kept.keep(0)
    assert 1 < kept.slept < 10
    assert kept.keeper.late_since == 0


@pytest.mark.parametrize("mode", ["prefer", "require"])
def test_a_run_that_slept_asks_again_when_the_first_proof_fails(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulation, seed 7421: it went on, and its writer got a batch that the newer run plans otherwise."""
    kept = Kept(tmp_path, mode)
    successor = History(kept.history.home, attempts="successor")
    successor.journal.load()
    successor.run()
    prove, fails = Journal.require_standing, [StorageUnreachable("no connection")] * 2

    def fails_at_first(journal: Journal) -> None:
        if fails:
            raise fails.pop()
        prove(journal)

    monkeypatch.setattr(Journal, "require_standing", fails_at_first)
    with pytest.raises(Fenced):
        kept.keep(0)
    assert not fails


def test_in_a_home_that_is_another_one_a_batch_waits_where_plans_are_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_another(journal: Journal) -> None:
        raise HomeReplaced("the home is another one")

    monkeypatch.setattr(Journal, "require_standing", is_another)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    preferred, required = Kept(tmp_path / "a", "prefer"), Kept(tmp_path / "b", "require")
    preferred.keep(0)
    assert preferred.slept == 0
    assert preferred.keeper.durable_upto(BatchId(0)) is None, "the home of this run does not have its plan"
    with pytest.raises(HomeReplaced):
        required.keep(0, stopping=True)
    assert (LATE, True) in required.told
    preferred.keeper.poll()
    preferred.lanes.work()
    assert preferred.keeper.late_since == 0
    monkeypatch.undo()
    preferred.clock.now += 10.0
    preferred.keeper.poll()
    preferred.lanes.work()
    assert preferred.keeper.durable_upto(BatchId(0)) == 0
    assert preferred.standing() == [0]


def test_a_plan_in_a_home_that_is_another_one_is_of_other_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs were awake in a home that was put back: one ran the batches of the other behind its own (seed 15805)."""

    def is_another(journal: Journal) -> None:
        raise HomeReplaced("the home is another one")

    kept = Kept(tmp_path, "prefer")
    kept.by_another(0, epoch=kept.history.journal.fencing_epoch)
    monkeypatch.setattr(Journal, "require_standing", is_another)
    kept.keep(0)
    assert kept.keeper.late_since == 0, "it runs as this run has planned it"
    planned_here = kept.keeper.take_along(cast(Any, kept.keeper._directory), None, OFFSETS)
    assert planned_here.offsets.encode() == OFFSETS
    kept.keeper.mode, kept.keeper._late = "require", deque()
    with pytest.raises(HomeReplaced):
        kept.keeper.take_along(cast(Any, kept.keeper._directory), None, OFFSETS)


def test_a_batch_that_others_have_planned_waits_for_a_home_that_tells_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_away(journal: Journal) -> None:
        raise StorageUnreachable("no connection")

    kept = Kept(tmp_path, "prefer")
    kept.by_another(0, epoch=kept.history.journal.fencing_epoch)
    monkeypatch.setattr(Journal, "require_standing", is_away)
    with pytest.raises(StorageUnreachable):
        kept.keep(0)


def test_more_late_plans_than_are_kept_leave_a_gap_that_a_checkpoint_must_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.plans.keeping._LATE_KEPT", 2)
    kept = Kept(tmp_path, "prefer")
    kept.keep(0)
    kept.store.faults = AWAY
    for batch in range(1, 5):
        kept.keep(batch)
    kept.store.faults = Faults()
    kept.ship()
    assert kept.standing() == [0], "nothing stands behind the gap"
    assert kept.keeper.durable_upto(BatchId(4)) == 0
    kept.history.complete(1, batch=2)
    kept.ship()
    assert sorted(kept.planned()) == [0, 3, 4]
    assert kept.keeper.durable_upto(BatchId(4)) == 4
    assert kept.told == [(LATE, True), (LATE, False)]


def test_a_late_plan_that_was_made_otherwise_meanwhile_is_told(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.store.faults = AWAY
    kept.keep(0)
    kept.by_another(0, epoch=kept.history.journal.fencing_epoch + 1)
    kept.store.faults = Faults()
    kept.keeper.poll()
    kept.lanes.work()
    assert (CONFLICT, True) in kept.told


def test_behind_a_batch_that_was_planned_otherwise_no_late_plan_is_put_before_a_checkpoint_holds_them(
    tmp_path: Path,
) -> None:
    """Seed 4536: the next run repeated them behind the other one's batch."""
    kept = Kept(tmp_path, "prefer")
    kept.store.faults = AWAY
    for batch in (0, 1, 2):
        kept.keep(batch)
    kept.by_another(0, epoch=kept.history.journal.fencing_epoch + 1)
    kept.store.faults = Faults()
    kept.ship()
    kept.keep(3)
    kept.ship()
    assert kept.planned() == {0}
    assert kept.keeper.late_since == 0
    kept.history.complete(1, batch=2)
    kept.ship()
    assert kept.planned() == {0, 3}
    assert kept.keeper.late_since is None


def test_a_run_that_was_overtaken_puts_no_late_plan_behind_its_first(tmp_path: Path) -> None:
    """The place of the first is free only where the newer run needs none there any more, or has not come so far."""
    kept = Kept(tmp_path, "prefer")
    kept.store.faults = AWAY
    for batch in (0, 1, 2):
        kept.keep(batch)
    kept.store.faults = Faults()
    successor = History(kept.history.home, attempts="successor")
    successor.journal.load()
    successor.run()
    kept.ship()
    assert kept.planned() == {0}
    assert kept.keeper.late_since == 0


def test_a_line_that_begins_with_repeated_batches_has_their_plans(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.keeper.begin_line([plan(0), plan(1)])
    kept.keep(2)
    assert kept.standing() == [0, 1, 2]


def test_a_damaged_plan_in_the_place_of_a_late_one_is_told_and_the_plan_stays_late(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.store.faults = AWAY
    kept.keep(0)
    kept.store.faults = Faults()
    key = plan_key(line_folder(kept.history.state()), BatchId(0))
    kept.history.store.put(key, b"{}")
    kept.ship()
    assert kept.keeper.late_since == 0
    assert f"could not read the plan {key}" in caplog.text
    kept.history.store.delete(key)
    kept.ship()
    assert kept.standing() == [0]
    assert kept.told[-1] == (LATE, False)


class Query:
    def __init__(self, refusal: str | None, sink: object = None) -> None:
        self._refusal, self.sink = refusal, sink

    def commits_told(self) -> int | None:
        return None

    def plans_refusal(self) -> str | None:
        return self._refusal


def test_plans_are_kept_where_that_is_possible_and_wanted_and_needed(caplog: pytest.LogCaptureFixture) -> None:
    can, cannot = Query(None), Query("there is no jar")
    assert mode_of("prefer", can) == "prefer"  # type: ignore[arg-type]
    assert mode_of("require", can) == "require"  # type: ignore[arg-type]
    assert mode_of("off", can) is None  # type: ignore[arg-type]
    assert mode_of("require", Query(None, sink="ours")) is None  # type: ignore[arg-type]
    assert mode_of("prefer", cannot) is None  # type: ignore[arg-type]
    assert "there is no jar" in caplog.text
    with pytest.raises(InvalidSettings, match="there is no jar"):
        mode_of("require", cannot)  # type: ignore[arg-type]


def test_who_shows_every_batch_needs_plans_and_a_sink_of_holdfasts() -> None:
    ours = Query(None, sink="ours")
    assert mode_of("prefer", ours, "batch") == "prefer"  # type: ignore[arg-type]
    for wanted, query, why in (
        ("prefer", Query(None), "has its own writer"),
        ("off", ours, "plans must not be off"),
        ("prefer", Query("there is no jar", sink="ours"), "there is no jar"),
    ):
        with pytest.raises(InvalidSettings, match=why):
            mode_of(wanted, query, "batch")  # type: ignore[arg-type]


def test_readers_may_see_what_would_be_repeated_as_it_was(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.keep(0)
    assert kept.keeper.durable_upto(BatchId(0)) == 0
    kept.store.faults = AWAY
    kept.keep(1)
    kept.keep(2)
    assert kept.keeper.durable_upto(BatchId(2)) == 0, "the plan of batch 1 is late"
    kept.store.faults = Faults()
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.keeper.durable_upto(BatchId(2)) == 2


def test_readers_see_nothing_of_a_run_whose_batch_was_planned_otherwise_before_a_checkpoint_has_it(
    tmp_path: Path,
) -> None:
    kept = Kept(tmp_path, "prefer")
    kept.store.faults = AWAY
    kept.keep(0)
    assert kept.keeper.durable_upto(BatchId(0)) is None
    kept.by_another(0, epoch=kept.history.journal.fencing_epoch + 1)
    kept.store.faults = Faults()
    kept.keeper.poll()
    kept.lanes.work()
    assert kept.keeper.durable_upto(BatchId(0)) is None


class AwayFor(Kept):
    """The home comes back when it has been asked five times."""

    def _sleep(self, seconds: float) -> None:
        away = self.store.faults
        super()._sleep(seconds)
        if self.slept < 5:
            self.store.faults = away


def test_a_batch_that_waits_long_for_its_plan_is_one_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One hour was 3,600 lines."""
    kept = AwayFor(tmp_path, "require")
    kept.store.faults = AWAY
    kept.keep(0)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert kept.slept == 5
    assert [line.partition(": batch 0 waits")[0] for line in said] == ["alarm plans_late"]
