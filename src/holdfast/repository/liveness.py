"""Whether a run is alive, for those who show it and for probes. Nobody may take a job because of it.

What is on the same host decides by itself: its process is there or not, and its state file says by the clock that both
share when the thread that decides last moved. Of a run elsewhere there is its heartbeat, judged by its age.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from holdfast.repository.entries import Process
from holdfast.repository.ownership import MISSED_BEATS, Heartbeat, known_alive, known_dead
from holdfast.repository.self_report import LocalState, SelfReport


@dataclass(frozen=True)
class Liveness:
    alive: bool
    why: str
    source: Literal["process", "heartbeat", "nothing"]
    """Who says so."""
    age_s: float | None = None
    """Seconds since the run said something."""
    process: Process | None = None
    report: SelfReport | None = None
    """What it said then."""
    over: bool = False
    """It has ended or its process is gone: the job may be alive as another run."""


NO_HEARTBEAT = Liveness(False, "it has shown no heartbeat: it never ran, or its owner.json was removed", "nothing")


def is_on_this_host(process: Process, here: Process) -> bool:
    """Whether both count the time since the same boot of the same host."""
    return bool(process.boot_id) and process.boot_id == here.boot_id


def by_state_file(local: LocalState, here: Process, uptime_s: float) -> Liveness | None:
    """None when the state file is that of another host, or of a time before the last boot."""
    if not is_on_this_host(local.process, here):
        return None
    age = max(0.0, uptime_s - local.uptime_s)
    process = f"process {local.process.pid} on this host"
    alive = over = False
    if local.report.phase == "ended":
        over, why = True, f"it has ended: {local.report.ended_reason}"
    elif known_dead(local.process, here):
        over, why = True, f"{process} is gone, and has not said that it ended"
    elif age > local.heartbeat_s * MISSED_BEATS:
        why = f"{process} is there, but holdfast in it has not moved for {age:.0f} s"
    else:
        alive, why = True, f"{process} says so"
    return Liveness(alive, why, "process", age, local.process, local.report, over)


def by_heartbeat(beat: Heartbeat, here: Process, now: datetime) -> Liveness:
    age = max(0.0, (now - beat.heartbeat_at.astimezone(UTC)).total_seconds())
    process = f"process {beat.process.pid} on {beat.process.host}"
    alive, why = beat.looks_fresh(now), f"{process} showed its last heartbeat {age:.0f} s ago"
    if known_dead(beat.process, here):
        alive, why = False, f"process {beat.process.pid} on this host is gone"
    elif not alive and known_alive(beat.process, here):
        why = f"process {beat.process.pid} on this host is there, but its last heartbeat is {age:.0f} s old"
    return Liveness(alive, why, "heartbeat", age, beat.process, beat.report)
