"""Who owns a job: for display, and to refuse a second deployment.

The journal alone decides ownership. The heartbeat in `owner.json` only allows holdfast to refuse a second deployment
with a good message instead of taking over from a live one. Clocks of different hosts are never compared: a run that has
not recorded its end is alive when its process is visible, or when its heartbeat changes while it is watched
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
from holdfast.repository.moments import Moment
from holdfast.repository.sealing import opened, sealed
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore

KEY = "owner.json"
MISSED_BEATS = 6
"""A run counts as dead when its heartbeat does not change for this many of its intervals."""
FORMAT = 2
"""Of `owner.json`. The first format had no number, and no fields after `application_id`."""


def current_process(identity: str | None = None) -> Process:
    pid = os.getpid()
    return Process(socket.gethostname(), pid, _boot_id(), _pid_namespace(), _own_ticks(), identity or "")


def known_dead(process: Process, here: Process) -> bool:
    """True only when `process` would be visible from `here` and does not exist."""
    return _visible(process, here) and _is_there(process) is False


def known_alive(process: Process, here: Process) -> bool:
    return _visible(process, here) and _is_there(process) is True


def succeeded(process: Process, here: Process) -> bool:
    """Whether `here` is the successor of `process`. The identity proves that only if the process is not visible from
    here. A visible process is known to be alive or dead; if it is alive, two processes have the same identity."""
    return bool(process.identity) and process.identity == here.identity and not _visible(process, here)


def _visible(process: Process, here: Process) -> bool:
    """Whether `here` would see `process` among its processes."""
    place = (process.boot_id, process.pid_namespace)
    comparable = process.boot_id and process.started_ticks and here.started_ticks
    return bool(comparable) and place == (here.boot_id, here.pid_namespace)


class Heartbeat(msgspec.Struct, frozen=True):
    process: Process
    fencing_epoch: FencingEpoch
    started_at: Moment
    heartbeat_at: Moment
    interval_s: float
    application_id: str | None = None
    format: int = 1
    beat: int = 0
    """Changes with each heartbeat, independent of the clock."""
    claim: AttemptId = AttemptId("")
    """The attempt id of the run's `run-started`: it distinguishes two claims with the same number."""
    head: Sequence = Sequence(0)
    """The newest journal entry that the run has seen. A journal that ends before it was restored from a backup."""
    state_file: str = ""
    """Where the run's state file is on its host, empty when it has none."""
    report: SelfReport | None = None
    """The run's report about itself."""

    @property
    def life(self) -> float:
        """How long it must be watched without a change before the run counts as dead."""
        return self.interval_s * MISSED_BEATS

    def looks_fresh(self, now: datetime) -> bool:
        """For display only, beside its age: it compares two clocks, so no decision may depend on it."""
        age = (now - self.heartbeat_at).total_seconds()
        return -self.life <= age <= self.life


@dataclass(frozen=True)
class Silence:
    """What did not change while it was watched for `Heartbeat.life` seconds."""

    head: Sequence
    beat: bytes | None


@dataclass(frozen=True)
class Claimable:
    why: str
    silence: Silence | None = None
    """What was watched, if that is the reason."""


@dataclass(frozen=True)
class Held:
    heartbeat: Heartbeat
    purpose: Literal["pipeline", "maintenance"] = "pipeline"


@dataclass(frozen=True)
class Unseen:
    """The owner has not recorded its end, and its process is not visible from here: only watching its heartbeat can
    tell."""

    heartbeat: Heartbeat
    """Made from its newest entry until it has written a heartbeat."""
    purpose: Literal["pipeline", "maintenance"] = "pipeline"


def standing(state: JobState, heartbeat: Heartbeat | None, here: Process) -> Claimable | Held | Unseen:
    """Whether a new run may claim the job, as far as that is known without waiting and without a clock."""
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
        return Claimable(f"this is the successor of {process.identity!r}, which owned the job")
    return Unseen(shown, run.purpose)


def seems_alive(state: JobState, heartbeat: Heartbeat | None, here: Process, now: datetime) -> bool:
    """For status output, and for commands that send the owner a request. No takeover may depend on it."""
    answer = standing(state, heartbeat, here)
    return isinstance(answer, Held) or (isinstance(answer, Unseen) and answer.heartbeat.looks_fresh(now))


def _stand_in(state: JobState, run: RunStarted) -> Heartbeat:
    """A heartbeat made from the newest entry, for an owner that has claimed but not written a heartbeat yet."""
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
    unseen = "" if isinstance(held, Held) else "; it has not recorded its end, and its process is not visible from here"
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


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(Heartbeat)
_FORMAT_DECODER = msgspec.json.Decoder(_HeartbeatFormat)


def read_heartbeat(store: ObjectStore) -> Heartbeat | None:
    """Reads twice before it ignores a damaged one: a wrong read does not prove wrong bytes in the store."""
    data = heartbeat_bytes(store)
    return None if data is None else decoded(data) or decoded(heartbeat_bytes(store))


def heartbeat_bytes(store: ObjectStore) -> bytes | None:
    """As stored: for a watcher any change shows that the owner is alive, even if it cannot decode the bytes."""
    try:
        return store.get(KEY)
    except ObjectNotFound:
        return None


def decoded(data: bytes | None) -> Heartbeat | None:
    """None also for a heartbeat of a newer version, or with damaged bytes: a wrong number in it would count as what
    another run has seen. The first versions wrote no checksum."""
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
    """None when that is unknown: /proc hides the processes of other users (hidepid), or cannot be read now."""
    try:
        stat = _stat(process.pid)
    except (FileNotFoundError, ProcessLookupError):
        return None if _is_taken(process.pid) else False
    except OSError:
        return None
    return _ticks(stat) == process.started_ticks


def _is_taken(pid: int) -> bool:
    """Whether some process, hidden or not, has this pid. Signal 0 only checks; it is not delivered."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _own_ticks() -> int:
    """0 when unknown: /proc may belong to another namespace, where another process has this pid."""
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
