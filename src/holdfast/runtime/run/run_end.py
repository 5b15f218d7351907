"""The last entry of a run that ends by itself: the next one need not wait for the heartbeat to go stale."""

from holdfast.errors import Fenced, StorageError
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.entries import RunEnded
from holdfast.repository.journal import Journal


def record_run_end(
    journal: Journal,
    reason: str,
    planned: BatchId | None = None,
    *,
    failed: bool = False,
    never_ran: bool = False,
    untouched: bool = False,
) -> None:
    """Best effort: a run that cannot say it is found dead after a while."""
    try:
        journal.append(
            lambda stamp: RunEnded(
                **stamp,
                reason=reason,
                planned=planned,
                failed=failed,
                never_ran=never_ran,
                untouched=untouched,
            )
        )
    except (StorageError, Fenced) as error:
        log.warning("could not record the end of the run: %s", error.message)
