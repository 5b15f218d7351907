"""Who owns a job, for people and for politeness.

Ownership itself is decided by the journal alone. The heartbeat in `owner.json` only lets a second deployment be refused
with a good message instead of taking over from a living one. A wrong clock or a lost heartbeat can make holdfast too
polite or not polite enough; it can never make two owners.
"""

import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.errors import ObjectNotFound, OwnedByAnotherRun
from holdfast.identifiers import FencingEpoch, JobName
from holdfast.repository.entries import Process
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore

KEY = "owner.json"
MISSED_BEATS = 6
"""A heartbeat is stale after this many intervals without a new one."""


def current_process(identity: str | None = None) -> Process:
    pid = os.getpid()
    return Process(socket.gethostname(), pid, _boot_id(), _pid_namespace(), _started_ticks(pid), identity or "")


def known_dead(process: Process, here: Process) -> bool:
    """True only when `process` would be visible from `here` and is not there."""
    return _visible(process, here) and _started_ticks(process.pid) != process.started_ticks


def succeeded(process: Process, here: Process) -> bool:
    """Whether `here` is the next life of `process`. A name proves it only for a process that cannot be seen: of one
    that can be, it is known whether it lives, and if it does, its name was given twice."""
    return bool(process.identity) and process.identity == here.identity and not _visible(process, here)


def _visible(process: Process, here: Process) -> bool:
    """Whether `here` would see `process` among its processes."""
    place = (process.boot_id, process.pid_namespace)
    return bool(process.boot_id) and place == (here.boot_id, here.pid_namespace)


class Heartbeat(msgspec.Struct, frozen=True):
    process: Process
    fencing_epoch: FencingEpoch
    started_at: datetime
    heartbeat_at: datetime
    interval_s: float
    application_id: str | None = None

    def is_fresh(self, now: datetime) -> bool:
        age = (now - self.heartbeat_at).total_seconds()
        limit = self.interval_s * MISSED_BEATS
        return -limit <= age <= limit


@dataclass(frozen=True)
class Claimable:
    why: str


@dataclass(frozen=True)
class Held:
    heartbeat: Heartbeat
    purpose: Literal["pipeline", "maintenance"] = "pipeline"


def availability(state: JobState, heartbeat: Heartbeat | None, here: Process, now: datetime) -> Claimable | Held:
    """Whether a new run may claim the job without asking."""
    if state.run is None:
        return Claimable("the job has never run")
    if state.ended is not None:
        return Claimable("the last run ended by itself")
    if heartbeat is None or heartbeat.fencing_epoch != state.fencing_epoch:
        return _by_last_entry(state, here, now)
    if (over := _over(heartbeat.process, here)) is not None:
        return over
    if heartbeat.is_fresh(now):
        return Held(heartbeat, state.run.purpose)
    return Claimable(f"the last run's heartbeat is stale since {heartbeat.heartbeat_at.isoformat()}")


def _over(process: Process, here: Process) -> Claimable | None:
    """What says without a look at the clock that the owner's life is over."""
    if known_dead(process, here):
        return Claimable(f"the last run's process {process.pid} on this host is dead")
    if succeeded(process, here):
        return Claimable(f"this is the next life of {process.identity!r}, which owned the job")
    return None


def _by_last_entry(state: JobState, here: Process, now: datetime) -> Claimable | Held:
    """The owner has claimed but not shown a heartbeat yet: its newest entry stands for one."""
    assert state.run is not None
    assert state.head_at is not None
    stand_in = Heartbeat(
        process=state.run.process,
        fencing_epoch=state.fencing_epoch,
        started_at=state.run.at,
        heartbeat_at=state.head_at,
        interval_s=state.run.heartbeat_s,
    )
    if (over := _over(stand_in.process, here)) is not None:
        return over
    if stand_in.is_fresh(now):
        return Held(stand_in, state.run.purpose)
    return Claimable("the last run never showed a heartbeat")


TAKE_OVER = "stop that run, or take the job from it: --on-conflict takeover"


def refusal(job: JobName, home: str, held: Held, doing: str = "start", hint: str = TAKE_OVER) -> OwnedByAnotherRun:
    beat = held.heartbeat
    application = f", application {beat.application_id}" if beat.application_id else ""
    identity = f", identity {beat.process.identity}" if beat.process.identity else ""
    owned = "is owned by" if held.purpose == "pipeline" else "is being maintained by a command on"
    return OwnedByAnotherRun(
        f"could not {doing} job {job!r} on {home}: it {owned} host {beat.process.host}, pid {beat.process.pid}"
        f"{identity}{application}, run {beat.fencing_epoch}, started {_shown(beat.started_at)}, "
        f"last heartbeat {_shown(beat.heartbeat_at)}",
        hint=hint,
    )


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(Heartbeat)


def read_heartbeat(store: ObjectStore) -> Heartbeat | None:
    try:
        return _DECODER.decode(store.get(KEY))
    except (ObjectNotFound, msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_heartbeat(store: ObjectStore, heartbeat: Heartbeat) -> None:
    store.put(KEY, msgspec.json.encode(heartbeat))


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id")


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _started_ticks(pid: int) -> int:
    """When the process started, in ticks since boot; 0 when there is no such process."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return 0
    return int(fields[19])


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
