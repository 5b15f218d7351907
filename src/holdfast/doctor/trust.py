"""Whose words count: a log carries other people's text, too."""

from holdfast.doctor.events import LogEvent

_TROUBLED = frozenset(("WARN", "WARNING", "ERROR", "FATAL", "SEVERE", "CRITICAL"))
_KNOWN = (
    "org.apache.",
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
    """An exception, a warning, or something that a known component says.

    A program's own chatter at INFO and lines that are no log lines may quote anything: a ticket, a search, a user.
    """
    if event.exceptions or event.level in _TROUBLED:
        return True
    if event.logger is None:
        return event.level is not None
    return "." not in event.logger or event.logger.startswith(_KNOWN)
