"""Detects work that does not return: a frozen mount, a server that accepts and never answers, a sink that hangs.
Nothing can end such a call from outside, so an alarm names it and its duration."""

from collections.abc import Callable, Mapping

from holdfast.finding import Severity
from holdfast.runtime.lanes import DOING, Lane

RaiseAlarm = Callable[[str, Severity, str, str], None]
ClearAlarm = Callable[[str, str], None]

LIMITS_S: Mapping[Lane, float] = {
    "journal": 90.0,
    "publish": 90.0,
    "heartbeat": 60.0,
    "requests": 60.0,
    "query": 300.0,
    "look": 60.0,
    "copy": 300.0,
}
"""After this long without an end, the work of a lane counts as stuck. Retrying stores fail well before; a query with
much state may take minutes to start. Nothing waits for the lanes that are not listed."""

_HINTS: Mapping[Lane, str] = {
    "publish": "check the sink's storage: does `ls` of it return? Batches are still staged, nothing is lost",
    "look": "check the file system of the work directory: does `ls` of it return? No checkpoint can begin meanwhile",
    "query": "check Spark: its log, a thread dump of the driver, the file system of the work directory",
}
_HOME_HINT = "check the home's storage: does `ls` of it return, does its server answer? The pipeline keeps running"


class StuckWatch:
    def __init__(self, raise_alarm: RaiseAlarm, clear_alarm: ClearAlarm) -> None:
        self._raise = raise_alarm
        self._clear = clear_alarm
        self._stuck: dict[Lane, float] = {}
        """The reported lanes, with the start time of the stuck work."""

    def look(self, busy_since: Mapping[Lane, float], now: float) -> None:
        for lane in [lane for lane, began in self._stuck.items() if busy_since.get(lane) != began]:
            del self._stuck[lane]
            self._clear(_code(lane), f"{DOING[lane]} has returned")
        for lane, limit in LIMITS_S.items():
            began = busy_since.get(lane)
            if began is not None and now - began >= limit and lane not in self._stuck:
                self._stuck[lane] = began
                message = f"{DOING[lane]} has not returned for {now - began:.0f} s"
                self._raise(_code(lane), "critical", message, _HINTS.get(lane, _HOME_HINT))


def _code(lane: Lane) -> str:
    return f"stuck_{lane}"
