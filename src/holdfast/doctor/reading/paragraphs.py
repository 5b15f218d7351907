"""Lines that belong to no line of a log -> what belongs together: a trace, a message over several lines, a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.doctor.reading.pasted import is_prose
from holdfast.doctor.reading.traces import is_frame, starts_trace


def paragraphs(lines: Sequence[str], collected: Sequence[bool]) -> Iterator[range]:
    """Places of lines, in order; `collected`: a collector put something before it, so it is no rest of another line."""
    first, in_trace = 0, False
    for place, line in enumerate(lines):
        if place == first:
            in_trace = starts_trace(line) or is_frame(line)
        if place > first and _ends_before(lines, place, in_trace, collected[place]):
            yield from _some(lines, first, place)
            first, in_trace = place, starts_trace(line) or is_frame(line)
        in_trace = in_trace or starts_trace(line) or is_frame(line)
    yield from _some(lines, first, len(lines))


def end_of_message(lines: Sequence[str]) -> int:
    """How many of the lines behind the first line of an event belong to it: prose behind a blank line does not."""
    for place, line in enumerate(lines):
        if (place == 0 or not lines[place - 1].strip()) and line.strip() and is_prose(line):
            return place
    return len(lines)


def _ends_before(lines: Sequence[str], place: int, in_trace: bool, collected: bool) -> bool:
    line = lines[place]
    if not line.strip() or is_frame(line):
        return False
    if is_prose(line) or is_prose(lines[place - 1]):
        return True
    if starts_trace(line):
        return in_trace
    return collected or not lines[place - 1].strip()


def _some(lines: Sequence[str], first: int, end: int) -> Iterator[range]:
    while first < end and not lines[first].strip():
        first += 1
    if first < end:
        yield range(first, end)
