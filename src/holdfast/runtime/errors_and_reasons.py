"""Maps an exception to the failure reason in the history, and the last reason to the error that ends the run."""

from holdfast.checkpoint.layout import FileTrouble, NotPlannable
from holdfast.coordination.failure_reasons import FailureReason, Fault
from holdfast.errors import (
    DamagedJournal,
    HoldfastError,
    HomeReplaced,
    JobFailed,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageThrottled,
)
from holdfast.showing import masked
from holdfast.snapshot.carrier import ShardDeclined

_OF_A_FILE = {
    FileTrouble.VANISHED: FailureReason.FILES_VANISHED,
    FileTrouble.CHANGED: FailureReason.FILES_CHANGED,
    FileTrouble.UNREADABLE: FailureReason.COPY_FAILED,
    FileTrouble.KEY_BEING_DELETED: FailureReason.COPY_FAILED,
}


class NameTaken(Exception):
    """The journal has a savepoint of that name."""


class CompletionInDoubt(OutcomeUnknown):
    """The entry that completes the checkpoint may be in the journal."""


def reason_of(error: Exception) -> FailureReason:  # noqa: C901  one case per reason
    match error:
        case NotPlannable() | ShardDeclined():
            return _OF_A_FILE[error.trouble]
        case NameTaken():
            return FailureReason.NAME_TAKEN
        case DamagedJournal():
            return FailureReason.JOURNAL_DAMAGED
        case HomeReplaced():
            return FailureReason.HOME_REPLACED
        case CompletionInDoubt():
            return FailureReason.OUTCOME_UNKNOWN
        case OutcomeUnknown(__cause__=StorageError() as cause):
            # The unknown entry is another one. What prevents its settling also prevents this checkpoint.
            return reason_of(cause)
        case StorageThrottled():
            return FailureReason.STORAGE_THROTTLED
        case StorageDenied():
            return FailureReason.STORAGE_DENIED
        case StorageFull():
            return FailureReason.STORAGE_FULL
        case StorageError():
            return FailureReason.STORAGE_UNREACHABLE
    return FailureReason.COPY_FAILED


def end_of_run(message: str, reason: FailureReason | None) -> HoldfastError:
    """The error of a run whose output is not durable, because its last checkpoint failed for `reason`.

    The exit code distinguishes a home that failed (repair the storage, start again) from a job that failed.
    """
    if reason is None:
        return JobFailed(message)
    kind: type[HoldfastError] = JobFailed
    if reason is FailureReason.JOURNAL_DAMAGED:
        kind = DamagedJournal
    elif reason.rule.fault is Fault.STORAGE:
        kind = StorageError
    return kind(message, hint=f"{reason.rule.hint}; then start it again: nothing is lost")


def message_of(error: Exception) -> str:
    if isinstance(error, HoldfastError):
        return error.message
    text = masked(str(error).strip())
    return text if isinstance(error, NotPlannable | ShardDeclined | NameTaken) else f"{type(error).__name__}: {text}"
