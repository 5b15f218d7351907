"""Whose words count: a log carries other people's text, too."""

from holdfast.doctor.events import LogEvent

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


def is_about_the_job(event: LogEvent) -> bool:
    """An exception, or something that a known component says.

    A program's own words and lines that are no log lines may quote anything: a ticket, a search, a user.
    """
    if event.exceptions:
        return True
    if event.logger is None:
        return event.level is not None
    return "." not in event.logger or event.logger.startswith(_KNOWN)
