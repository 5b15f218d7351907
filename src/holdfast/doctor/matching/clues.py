"""What one rule recognises in one event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from holdfast.doctor.reading.events import LogEvent


class Clue(Struct, frozen=True):
    """`variant` has few values, and the fix depends on it; values of which there are many are `mentions`."""

    text: str
    """The line to show as evidence."""
    variant: str = ""
    mentions: Mapping[str, str] = {}
    measures: Mapping[str, int] = {}


Recognise = Callable[[LogEvent], Clue | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """`recognise` only gets events with one of the `needles` (literal text of a raw line)."""

    code: str
    needles: tuple[str, ...]
    recognise: Recognise
    frequent: bool = False
    """Healthy jobs write such lines all the time: only a few of them per megabyte are examined."""
    short_only: bool = False
    """Its words are everywhere: it only gets events of short texts, which are examined as a whole."""
    of_guides: bool = False
    """Its words are of people who explain it: it also gets what somebody says, and never says that it happened."""
    samples: int = 3
    """How many per five minutes are kept as evidence."""
