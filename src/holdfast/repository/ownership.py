"""Who owns a job, for people and for politeness.

Ownership itself is decided by the journal alone. The heartbeat in `owner.json` only lets a second deployment be refused
with a good message instead of taking over from a living one. No clock is compared with another one's: a run that has
not said that it ended is alive when its process can be seen, or when its heartbeat changes while somebody watches
(`runtime/ownership/watching.py`).
"""

import os
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import ObjectNotFound, OwnedByAnotherRun
from holdfast.identifiers import AttemptId, FencingEpoch, JobName, Sequence
from holdfast.repository.entries import Process, RunStarted
from holdfast.repository.sealing import opened, sealed
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore

KEY = "owner.json"
MISSED_BEATS = 6
"""A run is taken for dead when its heartbeat did not change for this many of its intervals."""
FORMAT = 2
"""Of `owner.json`. The first one had no number, and nothing behind `application_id`."""


def current_process(identity: str | None = None) -> Process:
    pid = os.getpid()
    return Process(socket.gethostname(), pid, _boot_id(), _pid_namespace(), _own_ticks(), identity or "")


def known_dead(process: Process, here: Process) -> bool:
    """True only when `process` would be visible from `here` and is not there."""
    return _visible(process, here) and _is_there(process) is False


def known_alive(process: Process, here: Process) -> bool:
    return _visible(process, here) and _is_there(process) is True


def succeeded(process: Process, here: Process) -> bool:
    """Whether `here` is the next life of `process`. A name proves it only for a process that cannot be seen: of one
    that can be, it is known whether it lives, and if it does, its name was given twice."""
    return bool(process.identity) and process.identity == here.identity and not _visible(process, here)


def _visible(process: Process, here: Process) -> bool:
    """Whether `here` would see `process` among its processes."""
    place = (process.boot_id, process.pid_namespace)
    comparable = process.boot_id and process.started_ticks and here.started_ticks
    return bool(comparable) and place == (here.boot_id, here.pid_namespace)


class Heartbeat(msgspec.Struct, frozen=True):
    process: Process
    fencing_epoch: FencingEpoch
    started_at: datetime
    heartbeat_at: datetime
    interval_s: float
    application_id: str | None = None
    format: int = 1
    beat: int = 0
    """Changes with each heartbeat, whatever the clock says."""
    claim: AttemptId = AttemptId("")
    """The attempt id of the run's `run-started`: two claims of one number are told apart by it."""
    head: Sequence = Sequence(0)
    """The newest entry of the journal that the run knows. A journal that ends before it was put back."""
    state_file: str = ""
    """Where the run's state file is on its host, empty when it has none."""
    report: SelfReport | None = None
    """What the run says of itself."""

    @property
    def life(self) -> float:
        """How long it must be watched without a change."""
        return self.interval_s * MISSED_BEATS

    def looks_fresh(self, now: datetime) -> bool:
        """For people, who see its age too. It compares two clocks, so nothing is decided by it."""
        age = (now - self.heartbeat_at).total_seconds()
        return -self.life <= age <= self.life


@dataclass(frozen=True)
class Silence:
    """What did not change while somebody watched it for the whole life of the heartbeat."""

    head: Sequence
    beat: bytes | None


@dataclass(frozen=True)
class Claimable:
    why: str
    silence: Silence | None = None
    """What was watched, when that is why."""


@dataclass(frozen=True)
class Held:
    heartbeat: Heartbeat
    purpose: Literal["pipeline", "maintenance"] = "pipeline"


@dataclass(frozen=True)
class Unseen:
    """The owner has not said that it ended, and from here nobody sees its process: only watching it can tell."""

    heartbeat: Heartbeat
    """Its newest entry stands for one until it has shown one."""
    purpose: Literal["pipeline", "maintenance"] = "pipeline"


def standing(state: JobState, heartbeat: Heartbeat | None, here: Process) -> Claimable | Held | Unseen:
    """What can be said at once, and by no clock, about whether a new run may claim the job without asking."""
    run = state.run
    if run is None:
        return Claimable("the job has never run")
    if state.ended is not None:
        return Claimable("the last run ended by itself")
    shown = heartbeat if heartbeat and heartbeat.fencing_epoch == run.fencing_epoch else _stand_in(state, run)
    process = shown.process
    if known_alive(process, here):
        return Held(shown, run.purpose)
    if known_dead(process, here):
        return Claimable(f"the last run's process {process.pid} on this host is dead")
    if succeeded(process, here):
        return Claimable(f"this is the next life of {process.identity!r}, which owned the job")
    return Unseen(shown, run.purpose)


def seems_alive(state: JobState, heartbeat: Heartbeat | None, here: Process, now: datetime) -> bool:
    """For those who show the job, or only ask its owner for something. Nobody may take a job because of it."""
    answer = standing(state, heartbeat, here)
    return isinstance(answer, Held) or (isinstance(answer, Unseen) and answer.heartbeat.looks_fresh(now))


def _stand_in(state: JobState, run: RunStarted) -> Heartbeat:
    """The owner has claimed but not shown a heartbeat yet: its newest entry stands for one."""
    assert state.head_at is not None
    return Heartbeat(
        process=run.process,
        fencing_epoch=run.fencing_epoch,
        started_at=run.at,
        heartbeat_at=state.head_at,
        interval_s=run.heartbeat_s,
    )


TAKE_OVER = "stop that run, or take the job from it: --on-conflict takeover"


def refusal(
    job: JobName, home: str, held: Held | Unseen, doing: str = "start", hint: str = TAKE_OVER
) -> OwnedByAnotherRun:
    unseen = "" if isinstance(held, Held) else "; it has not said that it ended, and from here nobody sees its process"
    owned = "is owned by" if held.purpose == "pipeline" else "is being maintained by a command on"
    return OwnedByAnotherRun(
        f"could not {doing} job {job!r} on {home}: it {owned} {_named(held.heartbeat)}{unseen}", hint=hint
    )


def _named(beat: Heartbeat) -> str:
    application = f", application {beat.application_id}" if beat.application_id else ""
    identity = f", identity {beat.process.identity}" if beat.process.identity else ""
    return (
        f"host {beat.process.host}, pid {beat.process.pid}{identity}{application}, run {beat.fencing_epoch}, "
        f"started {_shown(beat.started_at)}, last heartbeat {_shown(beat.heartbeat_at)}"
    )


class _HeartbeatFormat(msgspec.Struct):
    format: int = 1


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(Heartbeat)
_FORMAT_DECODER = msgspec.json.Decoder(_HeartbeatFormat)


def read_heartbeat(store: ObjectStore) -> Heartbeat | None:
    """Read twice before it is left alone: bytes that came wrong may lie right."""
    data = heartbeat_bytes(store)
    return None if data is None else decoded(data) or decoded(heartbeat_bytes(store))


def heartbeat_bytes(store: ObjectStore) -> bytes | None:
    """As they lie there: whoever watches takes any change for life, also of what it cannot read."""
    try:
        return store.get(KEY)
    except ObjectNotFound:
        return None


def decoded(data: bytes | None) -> Heartbeat | None:
    """None also of one that a newer version wrote, or whose bytes are not what was written: a wrong number in it would
    pass for what another run knows. The first versions wrote no checksum."""
    proof = opened(data) if data is not None else None
    if data is None or (proof is not None and digest_of(proof[0]) != proof[1]):
        return None
    try:
        return _DECODER.decode(data) if _FORMAT_DECODER.decode(data).format <= FORMAT else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def write_heartbeat(store: ObjectStore, heartbeat: Heartbeat) -> None:
    store.put(KEY, sealed(msgspec.json.encode(heartbeat)))


def _shown(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _boot_id() -> str:
    return _read("/proc/sys/kernel/random/boot_id")


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _is_there(process: Process) -> bool | None:
    """None when nobody can say: /proc hides the processes of other users (hidepid), or cannot be read now."""
    try:
        stat = _stat(process.pid)
    except (FileNotFoundError, ProcessLookupError):
        return None if _is_taken(process.pid) else False
    except OSError:
        return None
    return _ticks(stat) == process.started_ticks


def _is_taken(pid: int) -> bool:
    """Whether some process has this number, also one that is hidden. Signal 0 is sent to nobody."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _own_ticks() -> int:
    """0 when /proc does not tell: it can be that of another namespace, where another process has this number."""
    try:
        stat = _stat("self")
    except OSError:
        return 0
    return _ticks(stat) if stat.startswith(f"{os.getpid()} ") else 0


def _stat(pid: int | str) -> str:
    return Path(f"/proc/{pid}/stat").read_text(errors="replace")


def _ticks(stat: str) -> int:
    """When the process started, in ticks since boot; 0 when it has ended."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[19]) if len(fields) >= 20 and fields[0] not in "ZX" else 0


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
