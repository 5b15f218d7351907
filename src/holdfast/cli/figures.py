"""Numbers formatted for people: sizes, durations, ages, bars. Pure."""

from collections.abc import Sequence
from datetime import datetime

_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEVELS = "▁▂▃▄▅▆▇█"
_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB")
_DAY_S = 86_400


def size(count: int | None) -> str:
    """`1.2 MB`; powers of 1000."""
    if count is None:
        return "-"
    value, unit = float(count), 0
    while value >= 999.5 and unit < len(_SIZE_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1
    return f"{value:.{digits}f} {_SIZE_UNITS[unit]}"


def duration(ms: float | None) -> str:
    """`850ms`, `1.2s`, `3m 05s`, `2h 10m`, `4d 3h`."""
    if ms is None:
        return "-"
    if ms < 999.5:
        return f"{ms:.0f}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}s"
    return _long_duration(round(ms / 1000))


def _long_duration(seconds: int) -> str:
    if seconds < 3600:
        return f"{seconds // 60}m {seconds % 60:02d}s"
    if seconds < _DAY_S:
        return f"{seconds // 3600}h {seconds % 3600 // 60:02d}m"
    return f"{seconds // _DAY_S}d {seconds % _DAY_S // 3600}h"


def age(then: datetime, now: datetime) -> str:
    """`12s ago`. A moment in the future, because clocks differ, is `just now`."""
    seconds = int((now - then).total_seconds())
    if seconds < 1:
        return "just now"
    return f"{seconds}s ago" if seconds < 60 else f"{_long_duration(seconds)} ago"


def moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def bar(value: float, largest: float, width: int) -> str:
    """A bar of `value / largest` of `width` cells. Any value above zero is at least an eighth of a cell."""
    if value <= 0 or largest <= 0:
        return ""
    eighths = max(1, round(min(1.0, value / largest) * width * 8))
    whole, rest = divmod(eighths, 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "")


def split_bar(part: int, whole: int, width: int) -> tuple[str, str]:
    """The filled and the empty end of a bar that shows `part` of `whole`."""
    filled = min(width, round(width * part / whole)) if whole else 0
    if part:
        filled = max(1, filled)
    return "█" * filled, "░" * (width - filled)


def spark_line(values: Sequence[int | None]) -> str:
    """One character per value, by height; None is a gap drawn as `✗`."""
    largest = max((value for value in values if value is not None), default=0) or 1
    return "".join("✗" if value is None else _LEVELS[round(value / largest * 7)] for value in values)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
