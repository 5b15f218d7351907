"""R10. Liveness is watched, not computed; order is the sequence, not the clock."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import Fenced, FencedByMaintenance, OwnedByAnotherRun, StorageUnreachable
from holdfast.identifiers import AttemptId, JobName
from holdfast.repository.entries import Process
from holdfast.repository.journal import Journal
from holdfast.repository.ownership import (
    Claimable,
    Held,
    current_process,
    heartbeat_bytes,
    known_alive,
    known_dead,
    read_heartbeat,
)
from holdfast.repository.views import checkpoints, job_status
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.ownership.watching import Watcher
from holdfast.runtime.run.environment import Environment
from holdfast.storage.local import LocalStore
from tests.unit.churning_runs import ChurningRun, ManualClock
from tests.unit.job_histories import ELSEWHERE, History

JOB = JobName("orders")
SKEWS = (-26 * 3600.0, -31.0, 31.0, 3600.0)
MANY = 1000


@dataclass
class Elsewhere:
    """A machine from which the owner cannot be seen. What others do happens while it sleeps."""

    history: History
    meanwhile: Callable[[], None] = lambda: None
    asleep: float = 0.0
    """How much longer than asked each sleep takes."""
    clock: ManualClock = field(default_factory=ManualClock)
    heard: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.clock.now += seconds + self.asleep
        self.meanwhile()

    def watcher(self) -> Watcher:
        here = Process("other", 7, boot_id="other-machine", pid_namespace="pid:[9]", started_ticks=3)
        return Watcher(self.history.store, here, self.clock, self.sleep, self.heard.append)

    def journal(self) -> Journal:
        return Journal(self.history.store, new_attempt=lambda: AttemptId("x"), now=self.clock.wall, readers=1)

    def answer(self) -> Claimable | Held:
        return self.watcher().answer(self.journal())

    def around(self) -> Environment:
        return replace(Environment.real(), clock=self.clock, sleep=self.sleep, report=self.heard.append)


@pytest.fixture(params=SKEWS)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    """A run on another machine, whose clock is off by so many seconds."""
    history = History(tmp_path / "home", start=datetime.now(UTC) + timedelta(seconds=request.param))
    history.run()
    history.complete(1, batch=3)
    history.beat()
    return history


def beating(history: History) -> Callable[[], None]:
    def beat() -> None:
        history.wait(2.5)
        history.beat()

    return beat


def test_a_run_whose_heartbeat_changes_is_alive_whatever_its_clock_says(history: History) -> None:
    there = Elsewhere(history, beating(history))
    assert isinstance(there.answer(), Held)
    assert there.clock.now < 30.0, "the first change is enough"


def test_a_run_whose_heartbeat_does_not_change_for_its_whole_life_is_dead_whatever_its_clock_says(
    history: History,
) -> None:
    there = Elsewhere(history)
    answer = there.answer()
    assert isinstance(answer, Claimable)
    assert "no sign of life" in answer.why
    assert there.clock.now >= 30.0
    assert there.heard[0] == "watching the heartbeat of run 1 on host build-3: 0 of 30 s"


def test_a_heartbeat_that_changes_nothing_but_its_counter_is_a_sign_of_life(tmp_path: Path) -> None:
    """A clock that stands still, or is coarse."""
    home = tmp_path / "home"
    home.mkdir()
    clock = ManualClock()
    run = ChurningRun(home, tmp_path / "work", clock, 1)
    store = LocalStore(home, within="churn") if (home / "churn").is_dir() else run.store
    before = heartbeat_bytes(store)
    run.runtime._storage.watch.beat()
    after = heartbeat_bytes(store)
    assert before is not None
    assert after is not None
    assert before != after
    beat = read_heartbeat(store)
    assert beat is not None
    state = run.runtime._storage.journal.state
    assert (beat.claim, beat.head) == (state.run.attempt, state.head)  # type: ignore[union-attr]


def test_an_entry_in_the_journal_is_a_sign_of_life_too(history: History) -> None:
    numbers = iter(range(2, MANY))
    there = Elsewhere(history, lambda: history.complete(next(numbers)))
    assert isinstance(there.answer(), Held)


def test_a_run_that_ends_while_it_is_watched_is_free_at_once(history: History) -> None:
    said: list[str] = []
    there = Elsewhere(history, lambda: None if said else (said.append("bye"), history.end())[1])
    assert isinstance(there.answer(), Claimable)
    assert there.clock.now < 5.0


def test_a_watcher_that_slept_itself_has_not_watched(history: History) -> None:
    """A VM that was paused together with the owner's: its clock jumped, and so did the other's."""
    there = Elsewhere(history, beating(history), asleep=1000.0)
    assert isinstance(there.answer(), Held)
    still = Elsewhere(history, asleep=1000.0)
    assert isinstance(still.answer(), Claimable)
    assert len(still.heard) >= 6, "a jump of one's own clock counts for two looks at most"


def test_a_home_that_cannot_be_read_is_no_silence(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(store: LocalStore, key: str) -> bytes:
        raise StorageUnreachable("down")

    there = Elsewhere(history, lambda: monkeypatch.setattr(LocalStore, "get", down))
    with pytest.raises(StorageUnreachable):
        there.answer()


def test_what_was_watched_before_the_file_was_loaded_is_not_watched_again_but_compared(history: History) -> None:
    there = Elsewhere(history)
    first = there.answer()
    assert isinstance(first, Claimable)
    asked = there.clock.now
    again = there.watcher().answer(there.journal(), first.silence)
    assert isinstance(again, Claimable)
    assert there.clock.now == asked
    history.wait(5)
    history.beat()
    assert isinstance(there.watcher().answer(there.journal(), first.silence), Held)


def test_a_visible_process_decides_by_itself(tmp_path: Path) -> None:
    """Also one that is frozen: its heartbeat is old, and it lives."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(days=1))
    alive = current_process()
    history.run(alive)
    history.beat()
    there = Elsewhere(history)
    assert isinstance(replace(there.watcher(), process=alive).answer(there.journal()), Held)
    dead = replace_ticks(alive)
    history.run(dead)
    history.beat()
    assert isinstance(replace(there.watcher(), process=alive).answer(there.journal()), Claimable)
    assert there.heard == []


def test_a_process_that_proc_hides_is_watched_and_not_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hidepid` shows nobody the processes of others. They are there all the same: a signal finds them."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(days=1))
    alive = current_process()
    history.run(alive)
    history.beat()

    def meanwhile() -> None:
        history.wait(5)
        history.beat()

    there = Elsewhere(history, meanwhile)
    monkeypatch.setattr("holdfast.repository.ownership._stat", hidden)
    assert isinstance(replace(there.watcher(), process=alive).answer(there.journal()), Held)
    assert there.heard, "it was watched"


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EACCES, errno.ENOMEM])
def test_a_process_of_which_nothing_can_be_read_is_neither_dead_nor_alive(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = current_process()

    def failing(pid: int | str) -> str:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("holdfast.repository.ownership._stat", failing)
    assert not known_dead(here, here)
    assert not known_alive(here, here)


def test_in_another_namespaces_proc_nobody_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`unshare --pid` without a /proc of its own: the number of this process is another's there."""
    stat = Path("/proc/self/stat").read_text()
    _, _, rest = stat.partition(" ")
    monkeypatch.setattr("holdfast.repository.ownership._stat", lambda pid: f"{os.getpid() + 1} {rest}")
    here = current_process()
    assert here.started_ticks == 0
    assert not known_dead(here, here)
    assert not known_alive(here, here)


def hidden(pid: int | str) -> str:
    raise FileNotFoundError(errno.ENOENT, f"/proc/{pid}/stat")


def replace_ticks(process: Process) -> Process:
    from msgspec.structs import replace as with_fields

    return with_fields(process, started_ticks=process.started_ticks + 1)


def test_two_deployments_with_clocks_31_s_apart_do_not_take_the_job_from_each_other(tmp_path: Path) -> None:
    """Each is started again by its supervisor whenever it is refused."""
    owner = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(seconds=31))
    owner.run()
    owner.beat()
    for _ in range(10):
        assert isinstance(Elsewhere(owner, beating(owner)).answer(), Held)
    assert len(owner.journal.load().runs) == 1


# --- commands ---


def maintained(there: Elsewhere, on_conflict: str = "refuse"):  # type: ignore[no-untyped-def]
    history = there.history
    return maintenance(JOB, "file:///home", history.store, "mend", there.around(), on_conflict=on_conflict)  # type: ignore[arg-type]


def test_a_command_does_not_take_a_job_from_a_run_that_only_paused(history: History) -> None:
    there = Elsewhere(history)
    refused = pytest.raises(OwnedByAnotherRun, match="has not recorded its end")
    with refused as caught, maintained(there):
        pytest.fail("it must not begin")
    assert "--on-conflict takeover" in str(caught.value)
    assert there.heard == [], "it is said at once"
    history.complete(2)


def test_told_to_take_it_over_a_command_watches_first(history: History) -> None:
    with pytest.raises(OwnedByAnotherRun), maintained(Elsewhere(history, beating(history)), "takeover"):
        pytest.fail("it must not begin")
    there = Elsewhere(history)
    with maintained(there, "takeover"):
        pass
    assert there.clock.now >= 30.0
    with pytest.raises(Fenced):
        history.complete(2)


def test_a_command_that_vanished_is_watched_by_the_next_one_and_nobody_has_to_say_so(tmp_path: Path) -> None:
    from holdfast.runtime.run.claiming import run_started

    history = History(tmp_path / "home")
    gone = replace(Elsewhere(history).around(), process=ELSEWHERE)
    history.journal.claim(run_started(history.journal, gone, 5.0, "", "maintenance"))
    there = Elsewhere(history)
    with maintained(there):
        assert there.clock.now >= 30.0


def test_a_pipeline_that_a_command_fenced_ends_with_words_of_its_own_and_is_started_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    clock = ManualClock()
    paused = ChurningRun(home, tmp_path / "work", clock, 1)
    paused.batches(2)
    around = replace(Environment.real(), clock=clock, sleep=clock.sleep, readers=1)
    with maintenance(JOB, "file:///home", paused.store, "mend", around, on_conflict="takeover"):
        pass
    paused.query.batch()
    paused.wait(2.0)
    assert isinstance(paused.failure, FencedByMaintenance)
    assert "taken by a command" in paused.failure.message
    assert paused.failure.exit_code == 1, "deploy/systemd restarts it; 5 it would not"


# --- order ---


@pytest.mark.parametrize("hours", [-1.0, 0.0, 1.0])
def test_failures_are_counted_whatever_the_clock_was_set_to(tmp_path: Path, hours: float) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1)
    history.wait(hours * 3600)
    for id in range(2, 7):
        history.start(id)
        history.fail(id)
    status = job_status(history.seen())
    assert status.consecutive_failures == 5
    assert status.last_failure is not None
    assert status.last_failure.id == 6


def test_the_history_is_in_the_order_of_the_journal(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    for id in range(1, 6):
        history.start(id)
        history.complete(id)
        history.wait(-3600)
    assert [document.id for document in checkpoints(history.seen())] == [5, 4, 3, 2, 1]
