"""What one rule sees in one event."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from holdfast.doctor.events import LogEvent

_NONE: Mapping[str, str] = MappingProxyType({})
_NO_NUMBERS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Clue:
    """`variant` tells apart what the fix depends on, and has few values; what has many goes to `mentions`."""

    text: str
    """The line to show as evidence."""
    variant: str = ""
    mentions: Mapping[str, str] = field(default_factory=lambda: _NONE)
    measures: Mapping[str, int] = field(default_factory=lambda: _NO_NUMBERS)


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
