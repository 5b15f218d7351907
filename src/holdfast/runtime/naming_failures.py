"""From an exception to the reason that the history shows."""

from holdfast.checkpoint.layout import NotPlannable
from holdfast.coordination.reasons import FailureReason
from holdfast.errors import (
    DamagedJournal,
    HoldfastError,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageThrottled,
)
from holdfast.snapshot.carrier import ShardDeclined


class NameTaken(Exception):
    """A savepoint of that name is in the journal."""


class CompletionInDoubt(OutcomeUnknown):
    """The entry that completes the checkpoint may be in the journal."""


def reason_of(error: Exception) -> FailureReason:
    match error:
        case NotPlannable() | ShardDeclined():
            return FailureReason.FILES_CHANGED if "changed" in str(error) else FailureReason.FILES_VANISHED
        case NameTaken():
            return FailureReason.NAME_TAKEN
        case DamagedJournal():
            return FailureReason.JOURNAL_DAMAGED
        case CompletionInDoubt():
            return FailureReason.OUTCOME_UNKNOWN
        case OutcomeUnknown(__cause__=StorageError() as cause):
            # Of another entry. What keeps it from being settled keeps this checkpoint from being made.
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


def message_of(error: Exception) -> str:
    if isinstance(error, HoldfastError):
        return error.message
    text = str(error).strip()
    return text if isinstance(error, NotPlannable | ShardDeclined | NameTaken) else f"{type(error).__name__}: {text}"
