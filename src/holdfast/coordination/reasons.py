"""Why a checkpoint can fail: every reason there is, whose fault it is, whether it counts, and what to do.

A reason *counts* when it says that checkpoints do not become durable. It does not count when the checkpoint was given
up for a good cause (a newer one completed, the run is stopping) or when a person asked for something impossible.
"""

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    STORAGE = "storage"
    PIPELINE = "pipeline"
    HOLDFAST = "holdfast"
    CALLER = "caller"
    NOBODY = "nobody"


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
        "the checkpoint was not complete when its time was up",
        "raise timeout, or look for the slowest shard: holdfast show ID; what was uploaded is reused",
    ),
    FailureReason.STORAGE_UNREACHABLE: ReasonRule(
        True,
        Fault.STORAGE,
        "the home did not answer, or answered with a passing fault",
        "check that the home is mounted and reachable from the driver",
    ),
    FailureReason.STORAGE_THROTTLED: ReasonRule(
        True,
        Fault.STORAGE,
        "the home asked for fewer requests until the time for trying again was up",
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
        "the home did not say whether the checkpoint's journal entry was written",
        "nothing: it is settled before the next checkpoint, and counts as completed if it was written",
    ),
    FailureReason.JOURNAL_DAMAGED: ReasonRule(
        True,
        Fault.STORAGE,
        "an entry of the journal is not what was written, so nothing can be appended",
        "put the entry back from a copy of the home: holdfast verify names it",
    ),
    FailureReason.HOME_REPLACED: ReasonRule(
        True,
        Fault.STORAGE,
        "the home was emptied, replaced or put back from a backup while the job ran: what the run had written is gone",
        "put the home back as it was, or mount it again: the job goes on by itself; else stop the job",
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
        False, Fault.NOBODY, "a newer checkpoint completed first", "nothing: the newer one contains it"
    ),
    FailureReason.QUERY_RESTARTED: ReasonRule(
        False, Fault.PIPELINE, "the query died and was restarted", "look at why the query died: holdfast status"
    ),
    FailureReason.RUN_STOPPED: ReasonRule(
        False, Fault.NOBODY, "the run stopped before the checkpoint was complete", "nothing: the next run goes on"
    ),
    FailureReason.FENCED: ReasonRule(
        False, Fault.NOBODY, "another run owns the job now", "stop one of the two deployments"
    ),
    FailureReason.NAME_TAKEN: ReasonRule(
        False, Fault.CALLER, "a savepoint of that name exists or is being made", "choose another name"
    ),
}
