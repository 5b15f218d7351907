"""A command asks the running owner: done once, answered in the journal, by whichever run owns the job by then."""

from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.errors import CheckpointFailed
from holdfast.identifiers import CheckpointId, Sequence
from holdfast.repository.entries import CheckpointCompleted, Process, RequestAnswered, RunEnded
from holdfast.repository.mailbox import KEY, Request, RequestKind, place_request, read_request
from holdfast.repository.state import JobState
from holdfast.runtime.requests.asking import Asker, ask
from holdfast.storage.local import LocalStore
from tests.unit.churning_runs import JOB, ChurningRun, ManualClock, state_of

ASKER = Process("terminal", 1)


class Desk:
    """The home, the clock, and one run after another."""

    def __init__(self, root: Path) -> None:
        self.home, self._work = root / "home", root / "work"
        self.home.mkdir()
        self.clock = ManualClock()
        self._number = 0
        self._requests = 0
        self.store = LocalStore(self.home, within=JOB)

    def run(self, **settings: object) -> ChurningRun:
        self._number += 1
        return ChurningRun(
            self.home, self._work, self.clock, self._number, heartbeat="1s", **{"interval": "1h", **settings}
        )

    def ran_a_batch(self) -> ChurningRun:
        run = self.run()
        run.query.batch()
        run.wait(0.5)
        return run

    def request(self, kind: RequestKind, name: str | None = None, **fields: object) -> Request:
        self._requests += 1
        now = self.clock.wall()
        values = {"head": self.state.head, "asked_at": now, "expires_at": now + timedelta(seconds=60)} | fields
        request = Request(id=f"r{self._requests}", kind=kind, name=name, asker=ASKER, **values)  # type: ignore[arg-type]
        assert place_request(self.store, request)
        return request

    @property
    def state(self) -> JobState:
        return state_of(self.home)

    def answer(self, request: Request) -> RequestAnswered:
        return self.state.answers[request.id]

    def completed(self, name: str) -> list[CheckpointId]:
        entries = [entry for _, entry in self.state.sequences]
        return [entry.id for entry in entries if isinstance(entry, CheckpointCompleted) and entry.name == name]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def answered_by(run: ChurningRun) -> None:
    run.wait(2.0)


def test_a_savepoint_is_made_answered_and_the_request_removed(desk: Desk) -> None:
    run = desk.ran_a_batch()
    request = desk.request("savepoint", "one")
    answered_by(run)
    answer = desk.answer(request)
    assert answer.failure is None
    assert desk.completed("one") == [answer.checkpoint]
    assert read_request(desk.store) is None


def test_a_checkpoint_is_made_now_and_answered(desk: Desk) -> None:
    run = desk.ran_a_batch()
    request = desk.request("checkpoint")
    answered_by(run)
    answer = desk.answer(request)
    assert answer.failure is None
    newest = desk.state.completed[answer.checkpoint]  # type: ignore[index]
    assert (newest.name, newest.barrier_batch_id) == (None, 0)
    assert read_request(desk.store) is None


def test_the_owner_looks_with_one_get_per_heartbeat_and_never_lists(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = desk.run()
    run.wait(1.0)
    asked: list[str] = []
    original = run.store.get

    def get(key: str) -> bytes:
        asked.append(key)
        return original(key)

    monkeypatch.setattr(run.store, "get", get)
    monkeypatch.setattr(run.store, "list", lambda *_: pytest.fail("a listing"))
    run.wait(5.0)
    assert asked.count(KEY) == 5


def test_a_request_that_came_too_late_is_refused_and_says_why(desk: Desk) -> None:
    request = desk.request("stop", head=Sequence(0))
    desk.clock.now += 3600.0
    run = desk.run()
    answered_by(run)
    assert not run.over, "an hour later nobody wants it stopped any more"
    failure = desk.answer(request).failure
    assert failure is not None
    assert failure.reason == "expired"
    assert read_request(desk.store) is None


def test_a_run_that_follows_does_not_repeat_what_was_answered(desk: Desk) -> None:
    run = desk.ran_a_batch()
    run.store.refuses = lambda key, data: key == KEY
    request = desk.request("stop", "last")
    answered_by(run)
    assert run.over
    assert read_request(desk.store) == request, "it could not be removed"
    following = desk.run()
    answered_by(following)
    assert not following.over
    assert read_request(desk.store) is None


def test_what_a_run_made_before_it_died_is_found_by_the_next(desk: Desk) -> None:
    run = desk.ran_a_batch()
    run.store.refuses = lambda key, data: b"request-answered" in data
    request = desk.request("savepoint", "one")
    answered_by(run)
    assert len(desk.completed("one")) == 1
    assert request.id not in desk.state.answers
    answered_by(desk.run())
    assert desk.completed("one") == [desk.answer(request).checkpoint]


def test_a_deletion_that_was_done_and_not_answered_is_answered_by_the_next(desk: Desk) -> None:
    run = desk.run()
    run.query.batch()
    run.runtime.request("savepoint", "one", lambda answer: None)
    run.wait(0.5)
    run.store.refuses = lambda key, data: b"request-answered" in data
    request = desk.request("delete-savepoint", "one")
    answered_by(run)
    assert desk.state.savepoint("one") is None
    answered_by(desk.run())
    assert desk.answer(request).failure is None


def test_an_answer_that_could_not_be_written_is_written_later(desk: Desk) -> None:
    run = desk.ran_a_batch()
    run.store.refuses = lambda key, data: b"request-answered" in data
    request = desk.request("savepoint", "one")
    answered_by(run)
    run.store.refuses = lambda key, data: False
    answered_by(run)
    assert desk.answer(request).checkpoint == desk.completed("one")[0]


def test_a_stop_with_a_savepoint_is_answered_before_the_end_is_recorded(desk: Desk) -> None:
    run = desk.ran_a_batch()
    request = desk.request("stop", "last")
    answered_by(run)
    assert run.over
    assert run.failure is None
    *_, answer, end = (entry for _, entry in desk.state.sequences)
    assert isinstance(end, RunEnded)
    assert answer == desk.answer(request)
    assert desk.completed("last") == [desk.answer(request).checkpoint]


def test_a_stop_whose_savepoint_has_a_taken_name_stops_nothing(desk: Desk) -> None:
    run = desk.run()
    run.query.batch()
    run.runtime.request("savepoint", "one", lambda answer: None)
    run.wait(0.5)
    request = desk.request("stop", "one")
    answered_by(run)
    assert not run.over
    assert desk.answer(request).failure.reason == "name_taken"  # type: ignore[union-attr]


def test_naming_and_deleting_by_a_running_job(desk: Desk) -> None:
    run = desk.run(interval="1s", retained=1)
    run.batches(1)
    first = desk.state.restorable()[0].id
    naming = desk.request("savepoint", "pinned", checkpoint=first)
    answered_by(run)
    assert desk.answer(naming).checkpoint == first
    run.batches(3)
    assert desk.state.savepoint("pinned").id == first, "retention leaves it alone"  # type: ignore[union-attr]
    taken = desk.request("savepoint", "pinned")
    answered_by(run)
    assert desk.answer(taken).failure.reason == "name_taken"  # type: ignore[union-attr]
    deleting = desk.request("delete-savepoint", "pinned")
    answered_by(run)
    assert desk.answer(deleting).checkpoint == first
    assert first in desk.state.retired
    again = desk.request("savepoint", "pinned")
    answered_by(run)
    assert desk.answer(again).failure is None, "the name is free again"


@pytest.mark.parametrize(
    ("kind", "name", "checkpoint", "reason"),
    [
        ("savepoint", "x", CheckpointId(77), "NotFound"),
        ("delete-savepoint", "x", None, "NotFound"),
        ("savepoint", None, None, "not_understood"),
    ],
)
def test_what_cannot_be_done_is_answered_too(
    desk: Desk, kind: RequestKind, name: str | None, checkpoint: CheckpointId | None, reason: str
) -> None:
    run = desk.run()
    request = desk.request(kind, name, checkpoint=checkpoint)
    answered_by(run)
    assert desk.answer(request).failure.reason == reason  # type: ignore[union-attr]


def test_one_that_cannot_be_read_is_nobodys(desk: Desk) -> None:
    run = desk.run()
    desk.store.create(KEY, b"{")
    answered_by(run)
    assert not desk.store.exists(KEY)


# --- the asker ---


def asking(desk: Desk, run: ChurningRun | None, kind: RequestKind, name: str, timeout: float = 30.0) -> RequestAnswered:
    """Time passes for the run while the asker sleeps."""

    def sleep(seconds: float) -> None:
        if run is None or run.over:
            desk.clock.now += seconds
        else:
            run.wait(seconds)

    asker = Asker(desk.clock, sleep, ASKER, lambda: "mine")
    return ask(JOB, desk.store, desk.state, kind, name=name, timeout=timeout, asker=asker)


def test_the_asker_gets_the_answer(desk: Desk) -> None:
    run = desk.run()
    run.query.batch()
    assert asking(desk, run, "savepoint", "one").checkpoint == desk.completed("one")[0]


def test_the_asker_waits_for_its_turn(desk: Desk) -> None:
    run = desk.run()
    run.query.batch()
    desk.request("savepoint", "other")
    assert asking(desk, run, "savepoint", "one").failure is None
    assert len(desk.completed("other")) == len(desk.completed("one")) == 1


def test_an_asker_that_gives_up_takes_its_request_away(desk: Desk) -> None:
    desk.run()
    with pytest.raises(CheckpointFailed, match="did not answer within 3 s"):
        asking(desk, None, "savepoint", "one", timeout=3.0)
    assert read_request(desk.store) is None


def test_an_asker_hears_that_the_run_ended(desk: Desk) -> None:
    run = desk.run()
    head = desk.state
    run.stop()
    asker = Asker(desk.clock, lambda seconds: pytest.fail("it waits"), ASKER, lambda: "mine")
    with pytest.raises(CheckpointFailed, match="ended before it answered: stopped"):
        ask(JOB, desk.store, head, "savepoint", name="one", timeout=3.0, asker=asker)
    assert read_request(desk.store) is None
