"""Reading a home for the commands that show it. Nothing here writes."""

from collections.abc import Iterator
from datetime import UTC, datetime

from holdfast.errors import InvalidSettings, NotFound
from holdfast.identifiers import JobName, job_name
from holdfast.repository.journal import PREFIX, read_entries
from holdfast.repository.ownership import Held, current_process, read_heartbeat, refusal, seems_alive, standing
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store


def job_store(home: str, job: str) -> ObjectStore:
    """The part of the home that belongs to one job; `NotFound` when the home has no such job."""
    name = job_name(job)
    root = open_store(home)
    store = root.scoped(name)
    if not _has_journal(store):
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


def refuse_if_owned(home: str, job: JobName, identity: str | None = None) -> None:
    """Raise `OwnedByAnotherRun` when that can be said at once; a run that cannot be seen is watched when it is time."""
    store = open_store(home).scoped(job)
    state = JobState.of(read_entries(store))
    answer = standing(state, read_heartbeat(store), current_process(identity))
    if isinstance(answer, Held):
        raise refusal(job, home, answer)


def job_names(root: ObjectStore) -> Iterator[str]:
    for name in root.children():
        if _is_job_name(name) and _has_journal(root.scoped(name)):
            yield name


def _has_journal(store: ObjectStore) -> bool:
    return next(iter(store.list(PREFIX)), None) is not None


def _is_job_name(name: str) -> bool:
    try:
        return bool(job_name(name))
    except InvalidSettings:
        return False


def _known_jobs_hint(root: ObjectStore) -> str:
    names = list(job_names(root))
    return f"one of: {', '.join(names)}" if names else "holdfast run, which makes the first journal entry of a job"
