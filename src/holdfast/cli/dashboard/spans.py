"""A span of time that somebody chose, as it stands in the address of a page. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class TimeSpan:
    begin: datetime
    end: datetime

    def has(self, at: datetime) -> bool:
        return self.begin <= at <= self.end


def chosen_span(begin: str, end: str) -> TimeSpan | None:
    """None when it is none: what stands in an address anybody may have written."""
    try:
        span = TimeSpan(_utc(datetime.fromisoformat(begin)), _utc(datetime.fromisoformat(end)))
    except (ValueError, OverflowError):
        return None
    return span if span.begin < span.end else None


def _utc(at: datetime) -> datetime:
    """A field of a form names no zone; the pages speak of UTC."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
