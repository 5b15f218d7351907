"""Findings from a history as alarms: raised when one begins or becomes critical, cleared when it ends. Pure."""

from collections.abc import Iterator, Sequence

from holdfast.coordination.commands import ClearAlarm, RaiseAlarm
from holdfast.finding import Finding

_TOLD_BY_OTHERS = frozenset(("checkpoints-failing", "checkpoint-overdue", "checkpoint-damaged", "little-headroom"))
"""The runtime raises its own alarms about these, as soon as they happen."""
_GONE_FOR_GOOD = 3
"""How many checks in a row lack the finding before it is cleared: a figure near its threshold fluctuates."""


class FindingAlarms:
    def __init__(self) -> None:
        self._raised: dict[str, RaiseAlarm] = {}
        self._missed: dict[str, int] = {}

    def judge(self, findings: Sequence[Finding]) -> Iterator[RaiseAlarm | ClearAlarm]:
        present = {finding.code: finding for finding in findings if finding.code not in _TOLD_BY_OTHERS}
        for code, finding in present.items():
            known = self._raised.get(code)
            self._missed[code] = 0
            if known is None or (finding.severity == "critical" and known.severity != "critical"):
                self._raised[code] = _alarm(finding)
                yield self._raised[code]
        for code in [code for code in self._raised if code not in present]:
            self._missed[code] += 1
            if self._missed[code] == _GONE_FOR_GOOD:
                del self._raised[code]
                yield ClearAlarm(code, "the newest checkpoints no longer show it")


def _alarm(finding: Finding) -> RaiseAlarm:
    hint = "; ".join(line.removeprefix("# ") for line in finding.fix)
    return RaiseAlarm(finding.code, finding.severity, f"{finding.symptom}: {finding.cause}", hint)
