"""Which events are evidence: a log also contains text from elsewhere."""

import re

from holdfast.doctor.reading.engines import is_a_method_of_spark
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.pasted import is_prose

_KNOWN = (
    "org.apache.",
    "o.a.",
    "org.rocksdb.",
    "pyspark",
    "py4j",
    "io.delta.",
    "io.confluent.",
    "io.debezium.",
    "com.ververica.",
    "akka.",
    "com.amazonaws.",
    "software.amazon.",
    "com.google.cloud.",
    "com.azure.",
    "com.microsoft.azure.",
    "com.zaxxer.",
    "io.netty.",
    "io.fabric8.",
    "gc",
)
_COMPLAINTS = frozenset(("WARN", "WARNING", "ERROR", "FATAL", "SEVERE", "CRITICAL"))
_EXCEPTION = re.compile(r"\b(?:[a-z_]\w*\.){2,}[A-Z]\w*(?:Exception|Error)\b")
_STATEMENT = re.compile(
    r"Checkpoint \[?\w+\]? (?:duration exceeded|failed: |expired before|of job \S+ expired)|\[[A-Z][A-Z_.]{8,}\] "
)
"""Messages of Flink about a checkpoint, or of Spark with an error class, pasted without the beginning of the line."""
_WORD_FOR_WORD = 18
_PROGRESS = ('"batchId"', '"runId"')
"""Spark's messages about a batch, which programs log under their own logger."""
_ABBREVIATED = re.compile(
    r"(?:spark|scheduler|cluster|executor|storage|streaming|state|server|client|netty|rpc|k8s|yarn|kafka010|checkpoint"
    r"|taskmanager|taskexecutor|executiongraph|jobmaster|resourcemanager|heartbeat|tasks|clients|consumer|internals|hdfs"
    r"|s3a|util)\.[A-Z][\w$]*$"
)
"""Loggers of Spark, Flink, Kafka and Hadoop of which a pattern leaves the last two parts (`%c{2}`)."""


def is_about_the_job(event: LogEvent) -> bool:
    """An exception, or a message of a known component.

    Messages of the program itself, and lines that are no log lines, may quote anything: a ticket, a search, a user. A
    complaint of a custom connector counts if it is about a checkpoint or an exception, and contains no quotation.
    """
    if event.exceptions or is_cut_off(event):
        return True
    if event.logger is None:
        return event.level is not None or _STATEMENT.match(event.message) is not None
    if "." not in event.logger or event.logger.startswith(_KNOWN) or _ABBREVIATED.match(event.logger):
        return True
    if is_a_method_of_spark(event.logger):
        return True
    return _complains(event) or all(name in event.message for name in _PROGRESS)


def is_cut_off(event: LogEvent) -> bool:
    """Frames of a trace, without what was thrown: they show what was done, not that it failed."""
    return bool(event.frames) and not (event.exceptions or event.message or event.logger or event.level)


def is_told(event: LogEvent) -> bool:
    """A sentence about the job that asks nothing, whoever speaks."""
    bare = event.logger is None and event.level is None and not event.exceptions
    return bare and not event.message.rstrip().endswith("?")


def is_loose_statement(event: LogEvent) -> bool:
    """Text that belongs to no line of a log and to no trace, and that nobody seems to have written by hand."""
    return event.logger is None and event.level is None and not event.exceptions and not is_prose(event.message)


def word_for_word_of(needles: tuple[str, ...]) -> tuple[str, ...]:
    """Those that only a runtime says: who describes trouble in their own words does not use that many of its."""
    return tuple(
        needle for needle in needles if len(needle) >= _WORD_FOR_WORD and (" " in needle.strip() or "_" in needle)
    )


def _complains(event: LogEvent) -> bool:
    if event.level not in _COMPLAINTS or '"' in event.message:
        return False
    return event.checkpoint is not None or _EXCEPTION.search(event.message) is not None
