"""The verdict about a query that differs from its checkpoint, and its report."""

import logging

from holdfast.checkpoint.compatibility import differences
from holdfast.checkpoint.difference import Difference, as_text
from holdfast.checkpoint.query_facts import QueryFacts
from holdfast.errors import Incompatible
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import log


def require_compatible(job: JobName, barrier: BatchId, held: QueryFacts, coming: QueryFacts, *, force: bool) -> bool:
    """True when `force` overrode refusals. Raises `Incompatible` when there are refusals without `force`."""
    found = differences(held, coming)
    if not found:
        return False
    refused = any(difference.refused for difference in found)
    tell(job, barrier, found, refused=refused and not force)
    if refused and not force:
        raise _refusal(job, barrier, found)
    return refused


def refusal(job: JobName, barrier: BatchId, held: QueryFacts, coming: QueryFacts) -> Incompatible | None:
    """What `require_compatible` would raise, without logging anything."""
    found = differences(held, coming)
    return _refusal(job, barrier, found) if any(difference.refused for difference in found) else None


def tell(job: JobName, barrier: BatchId, found: tuple[Difference, ...], *, refused: bool) -> None:
    # Passed along for log handlers that can show them as a table.
    log.log(
        logging.ERROR if refused else logging.WARNING,
        "the query of job %r differs from its checkpoint at batch %s:\n%s",
        job,
        barrier,
        as_text(found),
        extra={"differences": found},
    )


def _refusal(job: JobName, barrier: BatchId, found: tuple[Difference, ...]) -> Incompatible:
    first, *more_of_them = (difference for difference in found if difference.refused)
    others = len(more_of_them)
    more = f" (and {others} more, see above)" if others else ""
    error = Incompatible(
        f"could not start job {job!r} from its checkpoint at batch {barrier}: {first.subject}: "
        f"it was {first.checkpoint}, now {first.query}: {first.why}{more}",
        hint=f"{first.advice}; --force (force=True) starts it all the same",
    )
    error.differences = found
    return error
