"""What the user's own function says of their sink, and what becomes of one that raises or hangs."""

import threading

import pytest

from holdfast.errors import InvalidSettings, StorageUnreachable
from holdfast.spark.sink_position import SinkPosition
from tests.patience import PATIENCE


@pytest.mark.parametrize("answer", [None, 0, 41])
def test_its_answer_is_the_newest_batch(answer: int | None) -> None:
    assert SinkPosition(lambda: answer).newest() == answer


@pytest.mark.parametrize("answer", ["1", True, 1.0])
def test_another_answer_is_a_wrong_setting(answer: object) -> None:
    with pytest.raises(InvalidSettings, match="must return the newest batch id"):
        SinkPosition(lambda: answer).newest()  # type: ignore[arg-type,return-value]


def test_what_it_raises_is_told_as_a_sink_that_does_not_answer() -> None:
    def broken() -> int:
        raise ConnectionError("server closed the connection")

    with pytest.raises(StorageUnreachable, match=r"sink_position .*ConnectionError: server closed") as caught:
        SinkPosition(broken).newest()
    assert "check that the sink answers" in (caught.value.hint or "")


def test_one_that_hangs_is_waited_for_once_and_asked_again_when_it_has_returned() -> None:
    returns, called = threading.Event(), []

    def hangs() -> int:
        called.append(1)
        returns.wait(PATIENCE)
        return 7

    position = SinkPosition(hangs, patience_s=0.05)
    with pytest.raises(StorageUnreachable, match="has not returned for"):
        position.newest()
    with pytest.raises(StorageUnreachable, match="earlier call has not returned"):
        position.newest()
    assert called == [1]
    returns.set()
    assert position._asked is not None
    position._asked.join(PATIENCE)
    position._patience_s = PATIENCE
    assert position.newest() == 7
