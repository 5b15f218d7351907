"""The offsets that a checkpoint resumes at are no longer in the topic."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, for_variant
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole
from holdfast.finding import Severity

CODE = "offset-out-of-range"
_GONE = re.compile(
    r"out of range|data may have been|KAFKA_DATA_LOSS|OffsetOutOfRange|NoOffsetForPartition|Undefined offset"
)
_RECREATED = re.compile(
    r"offset was changed from|PARTITION_OFFSET_CHANGED|PARTITIONS_DELETED|(?<!may )have been deleted|are gone"
)
_HISTORY = re.compile(
    r"is less than the received seqNo|supplied (?:offset|sequence number) '\S*' is invalid"
    r"|no longer available on the server|could not find next log"
    r"|Could not find first log file name"
    r"|purged (?:required )?binary logs|resume point may no longer be in the oplog|ChangeStreamHistoryLost"
    r"|WAL segment \S+ has already been removed|can no longer get changes from replication slot"
    r"|snapshot was expired or removed|query is lagging behind"
)
_RESET = re.compile(
    r"out of range for partition .*,? resetting offset|failOnDataLoss\" to \"true\"|may have been missed"
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    link = link_with(event, _GONE)
    if _RESET.search(text) and not event.exceptions:
        return Clue(shown(event, link), "skipped")
    if _RECREATED.search(text):
        return Clue(shown(event, link), "recreated")
    if _HISTORY.search(text):
        return Clue(shown(event, link_with(event, _HISTORY)), "history") if event.exceptions else None
    return Clue(shown(event, link), "aged-out") if _GONE.search(text) else None


def _grade(case: Case, seen: Sightings, severity: Severity) -> Severity:
    return "warning" if all(sighting.key.variant == "skipped" for sighting in seen) else severity


_HOLDFAST = ("# lost records cannot be recovered; restore --checkpoint ID from before, or accept the gap",)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="records between the checkpoint and now are no longer in the topic",
    rules=(
        Rule(
            CODE,
            (
                "OffsetOutOfRangeException",
                "could not find next log",
                "Could not find first log file name",
                "NoOffsetForPartitionException",
                "KAFKA_DATA_LOSS",
                "ata may have been lost because they are not available in Kafka",
                "out of range with no configured reset policy",
                "is out of range for partition",
                "offset was changed from",
                "may have been missed",
                "is less than the received seqNo",
                "is no longer available on the server",
                "purged binary logs",
                "purged required binary logs",
                "resume point may no longer be in the oplog",
                "has already been removed",
                "can no longer get changes from replication slot",
                "snapshot was expired or removed",
                "query is lagging behind",
                "' is invalid. The last",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "recreated",
            "the topic was deleted and recreated, so its offsets begin at 0 while the checkpoint has the old ones",
            Fix(
                flink=(
                    "# start without state, or from a savepoint of the other operators: --allowNonRestoredState "
                    "with a new uid",
                ),
                spark=(
                    "# new checkpointLocation with startingOffsets=earliest; the old one belongs to the old topic",
                    "failOnDataLoss=false",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("recreated", weight=60),
        ),
        Cause(
            "aged-out",
            "the topic's retention is shorter than the time the job was down or behind",
            Fix(
                flink=(
                    "# topic: retention.ms=<longer than the longest outage>",
                    "properties.auto.offset.reset: earliest",
                ),
                spark=("# topic: retention.ms=<longer than the longest outage>", "failOnDataLoss=false"),
                holdfast=_HOLDFAST,
            ),
            for_variant("aged-out", weight=50),
        ),
        Cause(
            "history",
            "the source (binlog, oplog, write-ahead log, table or hub) keeps its history for less time than the job "
            "was down or behind",
            Fix(
                flink=(
                    "# keep the source's history longer than the longest outage: binlog_expire_logs_seconds, size of "
                    "the oplog, max_slot_wal_keep_size, expiry of snapshots",
                    "# what is gone cannot be read again: start with a snapshot of the source, without state",
                ),
                spark=(
                    "# keep the source's history longer than the longest outage: retention of the hub, of the "
                    "table's log and of its snapshots",
                    "# what is gone cannot be read again: new checkpointLocation",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("history", weight=50),
        ),
        Cause(
            "skipped",
            "records were skipped silently because the job is configured to continue",
            Fix(
                flink=("properties.auto.offset.reset: none",),
                spark=("failOnDataLoss=true",),
                holdfast=_HOLDFAST,
            ),
            for_variant("skipped", weight=40),
        ),
    ),
    references=("Spark docs: Structured Streaming + Kafka Integration Guide, failOnDataLoss",),
    grade=_grade,
)
