"""The content of an event, as text to search and as a line to show."""

import re
from collections.abc import Iterable

from holdfast.doctor.reading.events import ExceptionLink, LogEvent

_SHOWN = 300

Pattern = re.Pattern[str]


def whole(event: LogEvent) -> str:
    """The message and the chain of exceptions; frames are not part of it."""
    if not event.exceptions:
        return event.message
    return "\n".join((event.message, *(f"{link.class_name}: {link.message}" for link in event.exceptions)))


def root(event: LogEvent) -> ExceptionLink | None:
    return event.exceptions[-1] if event.exceptions else None


def shown(event: LogEvent, link: ExceptionLink | None = None) -> str:
    """The first line of the message, and the exception that matters (the innermost, when none is given)."""
    link = link or root(event)
    first = _one_line(event.message)
    if link is None:
        return first[:_SHOWN]
    simple = link.class_name.rpartition(".")[2]
    message = _one_line(link.message)
    exception = f"{simple}: {message}" if message and message != "null" else simple
    if message and message in first:
        return first[:_SHOWN]
    return (f"{first[: _SHOWN // 2]} | {exception}" if first else exception)[:_SHOWN]


def link_with(event: LogEvent, pattern: Pattern) -> ExceptionLink | None:
    """The innermost exception that the pattern matches, by class or message."""
    for link in reversed(event.exceptions):
        if pattern.search(f"{link.class_name}: {link.message}"):
            return link
    return None


def has_phrase(event: LogEvent, phrases: Iterable[str]) -> bool:
    text = whole(event)
    return any(phrase in text for phrase in phrases)


def _one_line(text: str) -> str:
    return " ".join(text.split())
