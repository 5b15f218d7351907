"""A commit to a table of Delta, Iceberg, Hudi or Paimon failed, or nobody knows whether it did."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "table-commit-failed"
_UNKNOWN = re.compile(r"CommitStateUnknown|Cannot tell if commit|Cannot determine whether the commit")
_CONFLICT = re.compile(
    r"Concurrent(?:Append|DeleteRead|DeleteDelete|Write|Transaction)Exception|DELTA_CONCURRENT|MetadataChangedException"
    r"|ProtocolChangedException|HoodieWriteConflict|iceberg\.exceptions\.(?:CommitFailed|Validation)"
    r"|by a concurrent update"
    r"|[Ff]ile deletion conflicts|commit conflict|Conflicting commit"
)
_OTHERS = re.compile(r"org\.apache\.kafka|kafka\.clients|java\.util\.ConcurrentModification")


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if _OTHERS.search(text):
        return None
    for name, pattern in (("unknown", _UNKNOWN), ("conflict", _CONFLICT)):
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    ours = "Hoodie" in text or "PaimonCommitter" in (event.logger or "") or "iceberg" in text or "paimon" in text
    return Clue(shown(event)) if ours else None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a commit to the table failed",
    rules=(
        Rule(
            CODE,
            (
                "ConcurrentAppendException",
                "ConcurrentDeleteReadException",
                "ConcurrentDeleteDeleteException",
                "ConcurrentWriteException",
                "ConcurrentTransactionException",
                "MetadataChangedException",
                "ProtocolChangedException",
                "DELTA_CONCURRENT",
                "by a concurrent update",
                "CommitStateUnknownException",
                "CommitFailedException",
                "HoodieWriteConflictException",
                "HoodieUpsertException",
                "HoodieCommitException",
                "HoodieInsertException",
                "HoodieRollbackException",
                "Executor executes action [",
                "Commit failed for ",
                "commit conflict",
                "ile deletion conflicts",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "unknown",
            "the catalog did not answer the commit: it may have happened. Trying again blindly would write it twice",
            Fix(
                flink=(
                    "# look at the table's newest snapshot: its summary names flink.max-committed-checkpoint-id",
                    "# check the catalog (Hive metastore, Glue, REST) and raise its time-out",
                ),
                spark=("# look at the newest version of the table before the batch is written again",),
                holdfast=("# an append without an answer is read back before anything else is written",),
            ),
            for_variant("unknown", weight=65),
        ),
        Cause(
            "conflict",
            "another writer changed the same part of the table meanwhile: a job, a compaction, a MERGE or a DELETE",
            Fix(
                flink=("commit.retry.num-retries: 10", "# let only one job write a partition; compact in the same job"),
                spark=(
                    "# name the partition in the condition of MERGE, UPDATE and DELETE: only its files conflict then",
                    "# write the batch again: in foreachBatch with txnAppId and txnVersion, so that it is written once",
                    "# OPTIMIZE and MERGE outside the hours of the stream, or on other partitions",
                ),
                holdfast=("# one job writes a sink; a second deployment is refused at its start",),
            ),
            for_variant("conflict", weight=60),
        ),
        Cause(
            "writer",
            "the table's own writer failed; the innermost exception shows why",
            Fix(
                flink=("# look for the first exception of the table's format before this one",),
                spark=("# look for the first `Caused by` below this one, in the log of the executor that it names",),
            ),
            always(),
        ),
    ),
    references=("Delta docs: Concurrency control", "Iceberg docs: Reliability"),
)
