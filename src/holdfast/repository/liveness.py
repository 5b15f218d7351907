"""Whether a run is alive, for status output and probes. No takeover may depend on it.

For a run on the same host, its process and its state file decide: the state file tells, by the host's monotonic clock,
when the main loop last made progress. For a run on another host, the age of its heartbeat decides.
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
    """The source of this verdict."""
    age_s: float | None = None
    """Seconds since the run's last report."""
    process: Process | None = None
    report: SelfReport | None = None
    """Its last report."""
    over: bool = False
    """The run has ended or its process is gone: another run of the job may be alive."""


NO_HEARTBEAT = Liveness(False, "it has shown no heartbeat: it never ran, or its owner.json was removed", "nothing")


def is_on_this_host(process: Process, here: Process) -> bool:
    """Whether both run on the same host since the same boot."""
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
        over, why = True, f"{process} is gone, and has not recorded its end"
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
