"""One message about one or more alarms: what, since when, why, what to do, and the command to look. Pure."""

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from holdfast.alarm import Alarm
from holdfast.finding import RANK, Severity
from holdfast.showing import shown

Tone = Literal["critical", "warning", "info", "over"]
_LISTED = 20
"""How many alarms a message describes; it counts the others."""
_NAMED = 8
"""How many jobs one line names."""


@dataclass(frozen=True)
class Message:
    title: str
    text: str
    tone: Tone
    """Of the worst alarm in it; `over` when all of them are over."""
    alarms: tuple[Alarm, ...]
    sent_at: datetime

    def document(self) -> dict[str, Any]:
        """The JSON that a webhook gets. Chat services show `text`."""
        return {
            "title": self.title,
            "text": f"{self.title}\n{self.text}",
            "tone": self.tone,
            "sent_at": _stamp(self.sent_at),
            "alarms": [_document(alarm) for alarm in self.alarms],
        }


def message_about(alarms: Sequence[Alarm], now: datetime) -> Message:
    return Message(_title(alarms), _text(alarms), _tone(alarms), tuple(alarms), now)


def message_of_a_test(home: str, job: str, now: datetime) -> Message:
    text = "this is a test of the alarms: nothing is wrong"
    return message_about((Alarm(job, "test", "info", text, "nothing", now, home=home),), now)


def command_to_look(alarm: Alarm) -> str:
    home = f" --home {shlex.quote(shown(alarm.home))}" if alarm.home else ""
    job = f" --job {shlex.quote(alarm.job)}" if alarm.job else ""
    return f"holdfast {'status' if alarm.job else 'jobs'}{home}{job}"


def incident_key(alarm: Alarm) -> str:
    """The same for all reports of an alarm, and short enough for a service that keeps incidents."""
    return hashlib.sha256(_key(alarm).encode()).hexdigest()


def _tone(alarms: Iterable[Alarm]) -> Tone:
    lasting: list[Severity] = [alarm.severity for alarm in alarms if not alarm.cleared]
    if not lasting:
        return "over"
    worst: Severity = min(lasting, key=RANK.__getitem__)
    return worst


def _title(alarms: Sequence[Alarm]) -> str:
    codes, jobs = _unique(alarm.code for alarm in alarms), _unique(alarm.job or "the home" for alarm in alarms)
    about = jobs[0] if len(jobs) == 1 else f"{len(jobs)} jobs"
    what = codes[0] if len(codes) == 1 else f"{len(codes)} alarms"
    return f"holdfast: {about}: {what} {_verdict(alarms)}"


def _verdict(alarms: Sequence[Alarm]) -> str:
    tone = _tone(alarms)
    if tone == "over":
        return "over" if len(alarms) > 1 else "is over"
    if all(alarm.change == "worse" for alarm in alarms):
        return "is now critical" if len(alarms) == 1 else "now critical"
    return f"({tone})"


def _text(alarms: Sequence[Alarm]) -> str:
    groups: dict[tuple[str, bool, str], list[Alarm]] = {}
    for alarm in alarms:
        groups.setdefault((alarm.code, alarm.cleared, alarm.severity), []).append(alarm)
    described = [_paragraph(group) for group in list(groups.values())[:_LISTED]]
    if len(groups) > _LISTED:
        described.append(f"… and {len(groups) - _LISTED} more alarms")
    return "\n\n".join(described)


def _paragraph(group: Sequence[Alarm]) -> str:
    """Alarms of several jobs with the same code: one paragraph."""
    first = group[0]
    state = "over" if first.cleared else first.severity
    began = min(alarm.since or alarm.at for alarm in group)
    lines = [
        f"[{state}] {_jobs(group)}: {first.code}",
        f"What: {shown(first.message)}" + (f" (and {len(group) - 1} jobs alike)" if len(group) > 1 else ""),
        f"Since: {_time(began)}" + (f", over at {_time(first.at)}" if first.cleared else ""),
    ]
    if first.hint and not first.cleared:
        lines.append(f"Do: {shown(first.hint)}")
    lines.append(f"Look: {command_to_look(first)}")
    return "\n".join(lines)


def _jobs(group: Sequence[Alarm]) -> str:
    names = _unique(alarm.job or "the home" for alarm in group)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _document(alarm: Alarm) -> dict[str, Any]:
    return {
        "job": alarm.job,
        "home": shown(alarm.home),
        "code": alarm.code,
        "key": _key(alarm),
        "change": alarm.change,
        "severity": alarm.severity,
        "message": shown(alarm.message),
        "hint": shown(alarm.hint),
        "since": _stamp(alarm.since or alarm.at),
        "at": _stamp(alarm.at),
        "command": command_to_look(alarm),
    }


def _key(alarm: Alarm) -> str:
    return f"{shown(alarm.home)}/{alarm.job}/{alarm.code}"


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
