"""Logs of real runs, short enough to be kept: their beginning, what leads to the trouble and its course, their end."""

from pathlib import Path

_BEGINNING, _BEFORE, _COURSE, _END = 40, 40, 260, 60
_TROUBLE = (" WARN ", " ERROR ")


def trim(log: Path) -> None:
    lines = log.read_text(errors="replace").splitlines(keepends=True)
    troubles = [number for number, line in enumerate(lines) if any(word in line for word in _TROUBLE) and number > 100]
    first = troubles[0] if troubles else 0
    course = _beginning_of_event(lines, first - _BEFORE)
    end = _beginning_of_event(lines, len(lines) - _END)
    kept = {*range(_BEGINNING), *range(course, first + _COURSE), *range(end, len(lines))}
    log.write_text("".join(lines[number] for number in sorted(kept) if 0 <= number < len(lines)))


def _beginning_of_event(lines: list[str], number: int) -> int:
    while 0 < number < len(lines) and not lines[number][:2].isdigit():
        number += 1
    return number
