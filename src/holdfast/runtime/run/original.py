"""Looks at the checkpoint directory of plain Spark that a job was made of, or that it has protected, and at other jobs
that were made of it. Before its first run.

Who went on from there has written batches that the job would write again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.checkpoint.layout import newest_barrier
from holdfast.errors import Conflict, Corrupt, NewerFormat, StorageError
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import log
from holdfast.plans.log import newest_planned
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import Adopted, RunStarted
from holdfast.repository.jobs import job_names
from holdfast.repository.journal import read_entries
from holdfast.repository.lines import line_folder
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import WorkDirectory


def require_original_at_rest(job: JobName, state: JobState, directory_at: Callable[[str], WorkDirectory]) -> None:
    """Raises `Conflict` when batches were planned there since. After the first run it may do as it likes."""
    newest, adopted = state.newest_of_the_line(), adopted_by(state)
    if newest is None or adopted is None:
        return
    try:
        found = newest_barrier(directory_at(adopted.location).names("offsets"))
    except (OSError, StorageError) as error:
        log.warning("could not see whether a query still runs in %s, which was adopted: %s", adopted.location, error)
        return
    if found is None:
        log.info("%s, which was adopted, cannot be seen from here, or is gone", adopted.location)
    elif found > adopted.planned:
        raise Conflict(
            f"could not start job {job!r}: checkpoint {newest.id} was made of {adopted.location} when batch "
            f"{adopted.planned} was planned there, and now batch {found} is: a query has gone on there, and its rows "
            "would come twice",
            hint=f"stop that query, then adopt what it has now: holdfast adopt {adopted.location} --job {job}",
        )


def require_protected_at_rest(
    job: JobName, state: JobState, store: ObjectStore, directory_at: Callable[[str], WorkDirectory]
) -> None:
    """Raises `Conflict` when batches were planned in a directory that the last run protected, and the home does not
    know them. After the first run of the job's own it may do as it likes."""
    newest, last = state.newest_of_the_line(), _last_that_ran(state)
    if newest is None or last is None or not last.protects:
        return
    try:
        found = newest_barrier(directory_at(last.protects).names("offsets"))
    except (OSError, StorageError) as error:
        log.warning("could not see whether a query still runs in %s, which was protected: %s", last.protects, error)
        return
    known = newest_planned(store, line_folder(state), newest.barrier_batch_id)
    if found is not None and found > known:
        raise Conflict(
            f"could not start job {job!r}: it has protected {last.protects} up to batch {known}, and batch {found} is "
            "planned there now: the query has gone on, and its rows would come twice",
            hint=f"stop that query, then take what it has now: holdfast protect {last.protects} --job {job} --once",
        )


def adopted_by(state: JobState) -> Adopted | None:
    """What the job was made of, until its first run."""
    newest = state.newest_of_the_line()
    return None if newest is None or _last_that_ran(state) is not None else newest.adopted


def _last_that_ran(state: JobState) -> RunStarted | None:
    """A start that failed has not gone on with what was adopted or protected: its query may have, meanwhile."""
    for run in reversed(state.runs):
        end = state.ends.get(run.fencing_epoch)
        if run.purpose == "pipeline" and not (end is not None and end.never_ran):
            return run
    return None


def other_that_went_on(root: ObjectStore, job: JobName, adopted: Adopted) -> JobName | None:
    """Another job of this home that was made of the same query, and that may have written batches behind what this one
    was made of. A job with a sink of holdfast writes to a place of its own."""
    others = others_of(root, job, adopted.query_id)
    return next((name for name, state in others if _went_on(state, adopted.planned)), None)


def others_of(root: ObjectStore, job: JobName, query: str) -> Iterator[tuple[JobName, JobState]]:
    """The other jobs of this home that were made of that query."""
    for name in job_names(root):
        store = root.scoped(name)
        try:
            state = JobState() if name == job else JobState.of(read_entries(store))
            if _is_of(store, state, query):
                yield name, state
        except (Corrupt, NewerFormat, StorageError) as error:
            log.warning("could not see whether job %r was made of the same query: %s", name, error.message)


def _went_on(state: JobState, planned: BatchId) -> bool:
    if (run := _last_that_ran(state)) is None:
        return False
    end = state.ends.get(run.fencing_epoch)
    return not run.sink and (end is None or end.planned is None or end.planned > planned)


def _is_of(store: ObjectStore, state: JobState, query: str) -> bool:
    """The journal may have dropped what it was made of long ago; each of its checkpoints tells the query."""
    if any(entry.adopted is not None and entry.adopted.query_id == query for entry in state.completed.values()):
        return True
    newest = state.newest_of_the_line()
    return newest is not None and load_manifest(store, newest).spark.get("query") == query
