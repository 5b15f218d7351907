"""Why a checkpoint can fail: every reason, what is at fault, whether it counts, and what to do.

A reason *counts* when it means that checkpoints do not become durable. It does not count when the checkpoint was
aborted for a good cause (a newer one completed, the run is stopping) or when a user requested something impossible.
"""

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    STORAGE = "storage"
    PIPELINE = "pipeline"
    HOLDFAST = "holdfast"
    CALLER = "caller"
    NONE = "none"


@dataclass(frozen=True)
class ReasonRule:
    counted: bool
    fault: Fault
    meaning: str
    hint: str


class FailureReason(Enum):
    EXPIRED = "expired"
    STORAGE_UNREACHABLE = "storage_unreachable"
    STORAGE_THROTTLED = "storage_throttled"
    STORAGE_DENIED = "storage_denied"
    STORAGE_FULL = "storage_full"
    OUTCOME_UNKNOWN = "outcome_unknown"
    JOURNAL_DAMAGED = "journal_damaged"
    HOME_REPLACED = "home_replaced"
    FILES_VANISHED = "files_vanished"
    FILES_CHANGED = "files_changed"
    COPY_FAILED = "copy_failed"
    SUPERSEDED = "superseded"
    QUERY_RESTARTED = "query_restarted"
    RUN_STOPPED = "run_stopped"
    FENCED = "fenced"
    NAME_TAKEN = "name_taken"

    @property
    def rule(self) -> ReasonRule:
        return RULES[self]

    @property
    def counted(self) -> bool:
        return RULES[self].counted


RULES: dict[FailureReason, ReasonRule] = {
    FailureReason.EXPIRED: ReasonRule(
        True,
        Fault.STORAGE,
        "the checkpoint timed out before it was complete",
        "raise timeout, or find the slowest shard: holdfast show ID; the next checkpoint reuses what was uploaded",
    ),
    FailureReason.STORAGE_UNREACHABLE: ReasonRule(
        True,
        Fault.STORAGE,
        "the home did not answer, or answered with a transient error",
        "check that the home is mounted and reachable from the driver",
    ),
    FailureReason.STORAGE_THROTTLED: ReasonRule(
        True,
        Fault.STORAGE,
        "the home throttled requests until the retries timed out",
        "raise interval, lower parallelism, or ask the provider for a higher request rate",
    ),
    FailureReason.STORAGE_DENIED: ReasonRule(
        True,
        Fault.STORAGE,
        "the home refused the write",
        "check the permissions or credentials of the home",
    ),
    FailureReason.STORAGE_FULL: ReasonRule(
        True,
        Fault.STORAGE,
        "the home has no space left",
        "free space in the home, or lower retained",
    ),
    FailureReason.OUTCOME_UNKNOWN: ReasonRule(
        True,
        Fault.STORAGE,
        "it is unknown whether the checkpoint's journal entry was written: the home did not answer",
        "nothing: holdfast finds out before the next checkpoint; if it was written, the checkpoint is completed",
    ),
    FailureReason.JOURNAL_DAMAGED: ReasonRule(
        True,
        Fault.STORAGE,
        "a journal entry is damaged, so nothing can be appended",
        "restore the entry from a copy of the home: holdfast verify names it",
    ),
    FailureReason.HOME_REPLACED: ReasonRule(
        True,
        Fault.STORAGE,
        "the home was emptied, replaced or restored from a backup while the job ran: what the run wrote is gone",
        "bring the right home back, or mount it again: checkpoints resume on their own; else stop the job",
    ),
    FailureReason.FILES_VANISHED: ReasonRule(
        True,
        Fault.PIPELINE,
        "Spark deleted a file of the barrier before it was copied",
        "raise spark.sql.streaming.minBatchesToRetain, or parallelism",
    ),
    FailureReason.FILES_CHANGED: ReasonRule(
        True,
        Fault.PIPELINE,
        "Spark rewrote a file of the barrier while it was copied",
        "nothing, if it happens once: the next checkpoint takes a newer barrier",
    ),
    FailureReason.COPY_FAILED: ReasonRule(
        True,
        Fault.HOLDFAST,
        "an unexpected error while planning or copying",
        "read the message; if it names holdfast's own code, report it",
    ),
    FailureReason.SUPERSEDED: ReasonRule(
        False, Fault.NONE, "a newer checkpoint completed first", "nothing: the newer one contains it"
    ),
    FailureReason.QUERY_RESTARTED: ReasonRule(
        False, Fault.PIPELINE, "the query failed and was restarted", "see why the query failed: holdfast status"
    ),
    FailureReason.RUN_STOPPED: ReasonRule(
        False, Fault.NONE, "the run stopped before the checkpoint was complete", "nothing: the next run continues"
    ),
    FailureReason.FENCED: ReasonRule(
        False, Fault.NONE, "another run owns the job now", "stop one of the two deployments"
    ),
    FailureReason.NAME_TAKEN: ReasonRule(
        False, Fault.CALLER, "a savepoint of that name exists or is in progress", "choose another name"
    ),
}
