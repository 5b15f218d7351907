"""Reads a home for the commands that show it. Writes nothing."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from holdfast.cli.output import print_message
from holdfast.errors import NotFound, StorageError
from holdfast.identifiers import CheckpointId, JobName, job_name
from holdfast.repository.glance import found_damaged
from holdfast.repository.jobs import is_job, job_names
from holdfast.repository.journal import read_entries
from holdfast.repository.last_verified import read_last_verified
from holdfast.repository.liveness import Liveness, by_heartbeat, by_state_file, is_on_this_host
from holdfast.repository.ownership import Held, current_process, read_heartbeat, refusal, seems_alive, standing
from holdfast.repository.self_report import read_local_state
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store


def job_store(home: str, job: str) -> ObjectStore:
    """The part of the home that belongs to one job; `NotFound` when the home has no such job."""
    name = job_name(job)
    root = open_store(home)
    store = root.scoped(name)
    if not is_job(root, name):
        raise NotFound(f"could not find job {name!r} in {home}: it has no journal there", hint=_known_jobs_hint(root))
    return store


def observe(home: str, job: str, store: ObjectStore | None = None, state: JobState | None = None) -> Observation:
    """A job as it is now; `state` when its journal has been read already."""
    store = store or job_store(home, job)
    state = state or JobState.of(read_entries(store))
    heartbeat = read_heartbeat(store)
    now = datetime.now(UTC)
    alive = seems_alive(state, heartbeat, current_process(), now)
    return Observation(job=job, home=home, state=state, heartbeat=heartbeat, alive=alive, now=now)


def examine(home: str, job: str, store: ObjectStore | None = None) -> Observation:
    """The same with the job's health: the report of its process, and whether the objects of the checkpoint that a start
    would resume from exist. Costs a few requests more."""
    store = store or job_store(home, job)
    seen = observe(home, job, store)
    if damaged := damage_in(store, seen.state):
        # The job may have retired it meanwhile.
        seen = observe(home, job, store)
        kept = {entry.id for entry in seen.state.restorable()}
        damaged = {id: why for id, why in damaged.items() if id in kept}
    return with_liveness(replace(seen, damaged=damaged, verified=read_last_verified(store)))


def with_liveness(seen: Observation) -> Observation:
    """With the report of the job's process, if there is one."""
    liveness = _liveness(seen)
    return replace(seen, liveness=liveness, alive=seen.alive or _speaks_here(seen.state, liveness))


def _speaks_here(state: JobState, liveness: Liveness | None) -> bool:
    """Also true for a process in another container of this host, which is invisible here, with a fresh state file."""
    return liveness is not None and liveness.alive and liveness.source == "process" and state.run is state.pipeline


def damage_in(store: ObjectStore, state: JobState) -> dict[CheckpointId, str]:
    try:
        return found_damaged(store, state)
    except StorageError as error:
        print_message(f"holdfast: could not check whether the newest checkpoint is complete: {error.message}")
        return {}


def _liveness(seen: Observation) -> Liveness | None:
    """On the host of the run by the process, elsewhere by the heartbeat."""
    run, here = seen.state.pipeline, current_process()
    if run is None or seen.state.pipeline_ended is not None:
        return None
    local = read_local_state(Path(run.state_file)) if run.state_file and is_on_this_host(run.process, here) else None
    if local is not None and local.claim == run.attempt:
        return by_state_file(local, here, time.monotonic())
    beat = seen.heartbeat
    return by_heartbeat(beat, here, seen.now) if beat and beat.fencing_epoch == run.fencing_epoch else None


def refuse_if_owned(home: str, job: JobName, identity: str | None = None) -> None:
    """Raise `OwnedByAnotherRun` when that is known at once; a run whose process is invisible is watched later."""
    store = open_store(home).scoped(job)
    state = JobState.of(read_entries(store))
    answer = standing(state, read_heartbeat(store), current_process(identity))
    if isinstance(answer, Held):
        raise refusal(job, home, answer)


def _known_jobs_hint(root: ObjectStore) -> str:
    names = list(job_names(root))
    return f"one of: {', '.join(names)}" if names else "holdfast run, which creates the first journal entry of a job"
