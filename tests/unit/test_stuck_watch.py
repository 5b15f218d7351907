"""What does not come back is an alarm that names it; a frozen call ends no other lane's work."""

import threading

import pytest

from holdfast.runtime.lanes import ThreadLanes
from holdfast.runtime.reports.stuck_watch import LIMITS_S, StuckWatch
from tests.patience import PATIENCE


class Heard:
    def __init__(self) -> None:
        self.raised: list[tuple[str, str]] = []
        self.cleared: list[str] = []
        self.watch = StuckWatch(
            lambda code, severity, message, hint: self.raised.append((code, message)),
            lambda code, message: self.cleared.append(code),
        )


def test_work_that_returns_in_time_is_not_mentioned() -> None:
    heard = Heard()

    heard.watch.look({"publish": 0.0}, LIMITS_S["publish"] - 0.1)
    heard.watch.look({}, 1000.0)

    assert (heard.raised, heard.cleared) == ([], [])


def test_work_that_does_not_return_is_told_once_and_its_end_too() -> None:
    heard = Heard()

    for now in (100.0, 200.0, 300.0):
        heard.watch.look({"publish": 0.0}, now)
    heard.watch.look({"publish": 310.0}, 320.0)

    assert heard.raised == [("stuck_publish", "publishing to the sink has not returned for 100 s")]
    assert heard.cleared == ["stuck_publish"]


@pytest.mark.parametrize("lane", LIMITS_S)
def test_every_watched_lane_is_named(lane: str) -> None:
    heard = Heard()

    heard.watch.look({lane: 0.0}, 1000.0)  # type: ignore[dict-item]

    ((code, message),) = heard.raised
    assert code == f"stuck_{lane}"
    assert "has not returned for 1000 s" in message


def test_a_lane_says_since_when_it_works_while_others_go_on() -> None:
    lanes = ThreadLanes(copying=1)
    begun, let_go, done = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        let_go.wait()

    lanes.submit("publish", hang)
    assert begun.wait(PATIENCE)
    assert list(lanes.busy_since()) == ["publish"]
    lanes.submit("journal", done.set)
    assert done.wait(PATIENCE)

    let_go.set()
    ended = threading.Event()
    lanes.submit("publish", ended.set)
    assert ended.wait(PATIENCE)
    lanes.close()
