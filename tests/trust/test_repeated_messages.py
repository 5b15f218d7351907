"""R12: what makes a message harmless when repeated lives as long as the message can."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import CheckpointFailed
from holdfast.repository.mailbox import Request, place_request, read_request
from holdfast.runtime.requests.asking import Asker, ask
from tests.unit.churning_runs import JOB, ChurningRun
from tests.unit.test_mailbox import ASKER, Desk, answered_by


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr("holdfast.repository.retention.HISTORY_KEPT", 4)
    monkeypatch.setattr("holdfast.repository.retention.ANSWERS_KEPT", 1)
    return Desk(tmp_path)


def forgotten(desk: Desk, run: ChurningRun, request: Request) -> None:
    """Serve others, and let the journal be folded, until the answer to the request is dropped."""
    for number in range(3):
        run.query.batch()
        run.wait(0.5)
        desk.request("savepoint", f"later-{number}")
        answered_by(run)
        desk.request("delete-savepoint", f"later-{number}")
        answered_by(run)
    assert request.id not in desk.state.answers


def once_more(desk: Desk, request: Request) -> None:
    """As a write does that was on its way all that time."""
    assert place_request(desk.store, request)


@pytest.mark.parametrize("same_run", [True, False])
def test_a_request_that_comes_again_after_its_answer_was_forgotten_is_not_served_again(
    desk: Desk, same_run: bool
) -> None:
    run = desk.run()
    run.query.batch()
    run.wait(0.5)
    request = desk.request("savepoint", "one")
    answered_by(run)
    desk.request("delete-savepoint", "one")
    answered_by(run)
    forgotten(desk, run, request)
    if not same_run:
        run.stop()
        run = desk.run()
        run.query.batch()
        run.wait(0.5)
    once_more(desk, request)
    answered_by(run)
    assert desk.state.savepoint("one") is None, "it was deleted since, and is not made again"
    assert request.id not in desk.state.answers
    assert read_request(desk.store) is None
    fresh = desk.request("savepoint", "two")
    answered_by(run)
    assert desk.answer(fresh).failure is None, "who asks now is served"


def test_an_asker_whose_request_became_void_is_told_to_ask_again(desk: Desk) -> None:
    run = desk.run()
    run.query.batch()
    run.wait(0.5)
    state = desk.state
    request = desk.request("savepoint", "one")
    answered_by(run)
    forgotten(desk, run, request)
    asker = Asker(desk.clock, _passing(run), ASKER, lambda: request.id)
    with pytest.raises(CheckpointFailed, match="void") as told:
        ask(JOB, desk.store, state, "savepoint", name="one", timeout=30.0, asker=asker)
    assert "ask again" in (told.value.hint or "")


def _passing(run: ChurningRun) -> Callable[[float], None]:
    return run.wait
