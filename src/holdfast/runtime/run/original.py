"""Looks at the checkpoint directory of plain Spark that a job was made of, before its first run.

A query that went on there has written batches that the job would write again.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.checkpoint.layout import newest_barrier
from holdfast.errors import Conflict, StorageError
from holdfast.identifiers import JobName
from holdfast.job_log import log
from holdfast.repository.state import JobState
from holdfast.workdir.interface import WorkDirectory


def require_original_at_rest(job: JobName, state: JobState, directory_at: Callable[[str], WorkDirectory]) -> None:
    """Raises `Conflict` when batches were planned there since. After the first run it may do as it likes."""
    newest = state.newest_of_the_line()
    if newest is None or newest.adopted is None or state.pipeline is not None:
        return
    adopted = newest.adopted
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
