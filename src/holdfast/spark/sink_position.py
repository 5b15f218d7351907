"""The user's own function that says which batches their sink has: it may raise, and it may never return."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from holdfast.errors import InvalidSettings, StorageUnreachable
from holdfast.identifiers import BatchId
from holdfast.job_log import about_the_same

PATIENCE_S = 60.0


class SinkPosition:
    """Any thread may ask, one after the other."""

    def __init__(self, function: Callable[[], int | None], patience_s: float = PATIENCE_S) -> None:
        self._function = function
        self._patience_s = patience_s
        self._asked: threading.Thread | None = None

    def newest(self) -> BatchId | None:
        """Raises `StorageUnreachable` without an answer. While a call does not return, there is no second one."""
        if self._asked is not None and self._asked.is_alive():
            raise _unknown("an earlier call has not returned yet")
        answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._asked = threading.Thread(
            target=about_the_same(self._call), args=(answers,), name="holdfast-sink-position", daemon=True
        )
        self._asked.start()
        try:
            answer = answers.get(timeout=self._patience_s)
        except queue.Empty:
            raise _unknown(f"it has not returned for {self._patience_s:g} s") from None
        self._asked.join()
        if isinstance(answer, Exception):
            raise _unknown(f"it raised {type(answer).__name__}: {answer}") from answer
        if answer is not None and (not isinstance(answer, int) or isinstance(answer, bool)):
            rule = "must return the newest batch id that the sink has, or None"
            raise InvalidSettings.of("sink_position", answer, rule)
        return None if answer is None else BatchId(answer)

    def _call(self, answers: queue.SimpleQueue[object]) -> None:
        try:
            answers.put(self._function())
        except Exception as error:
            answers.put(error)


def _unknown(why: str) -> StorageUnreachable:
    return StorageUnreachable(
        f"could not learn from sink_position which batches the sink has: {why}",
        hint="check that the sink answers, and that the function opens a connection of its own",
    )
