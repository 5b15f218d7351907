"""Times as logs write them, in milliseconds since 1970. Without a zone they are taken as UTC."""

import re
from datetime import UTC, datetime, timedelta, timezone

_ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d:?\d\d))?", re.ASCII
)
_SPARK = re.compile(r"(\d\d)/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_LOG4J = re.compile(r"(\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", re.ASCII)
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}


def milliseconds(text: str) -> int | None:
    """None when it is not a time, has no date, or names a day that does not exist."""
    try:
        return _iso(text) or _spark(text) or _log4j(text)
    except ValueError:
        return None


def has_zone(text: str) -> bool:
    found = _ISO.match(text)
    return found is not None and found[8] is not None


def _iso(text: str) -> int | None:
    if (found := _ISO.match(text)) is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    return _instant(int(year), int(month), int(day), (hour, minute, second), fraction, _zone(zone))


def _spark(text: str) -> int | None:
    if (found := _SPARK.match(text)) is None:
        return None
    year, month, day, hour, minute, second, fraction = found.groups()
    return _instant(2000 + int(year), int(month), int(day), (hour, minute, second), fraction, UTC)


def _log4j(text: str) -> int | None:
    if (found := _LOG4J.match(text)) is None or found[2] not in _MONTHS:
        return None
    day, month, year, hour, minute, second, fraction = found.groups()
    return _instant(int(year), _MONTHS[month], int(day), (hour, minute, second), fraction, UTC)


def _instant(
    year: int, month: int, day: int, clock: tuple[str, str, str], fraction: str | None, zone: timezone
) -> int | None:
    hour, minute, second = map(int, clock)
    leap = second == 60  # exists in logs, not in datetime
    at = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=zone)
    return round(at.timestamp()) * 1000 + (1000 if leap else 0) + int((fraction or "0").ljust(3, "0")[:3])


def _zone(text: str | None) -> timezone:
    if text is None or text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(text[1:3]), minutes=int(text[-2:])))
