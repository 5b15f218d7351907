"""What one rule sees in one event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from holdfast.doctor.reading.events import LogEvent


class Clue(Struct, frozen=True):
    """`variant` tells apart what the fix depends on, and has few values; what has many goes to `mentions`."""

    text: str
    """The line to show as evidence."""
    variant: str = ""
    mentions: Mapping[str, str] = {}
    measures: Mapping[str, int] = {}


Recognise = Callable[[LogEvent], Clue | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """Events without any of the `needles` (literal, as they stand in a raw line) are never shown to `recognise`."""

    code: str
    needles: tuple[str, ...]
    recognise: Recognise
    frequent: bool = False
    """Healthy jobs write such lines all the time: a few of them per megabyte are looked at."""
    samples: int = 3
    """How many of five minutes are kept to be shown."""
