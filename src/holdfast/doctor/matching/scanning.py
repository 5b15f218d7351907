"""One worker scans one piece of a file: what the rules recognise in it, and its counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.grouping import EVENT_LINES, Grouping
from holdfast.doctor.matching.needles import needles_of
from holdfast.doctor.matching.sightings import Sighting, observe
from holdfast.doctor.reading.blocks import SAMPLE, Damaged, Piece, is_binary, opened, sample_of
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.windows import Read, Window, windows


@dataclass(slots=True)
class Reading:
    """The counts and sightings of one piece. Readings of one file, in order, add up to that of the file."""

    piece: Piece
    bytes: int = 0
    lines: int = 0
    events: int = 0
    leading: int = 0
    """Lines before the first event; all, when there is none."""
    trailing: int = 0
    """Lines since the last event began."""
    beyond: int = 0
    """Lines that are too far from the beginning of an event to belong to it."""
    binary: bool = False
    trouble: str | None = None
    """Why the piece could not be read, or not to its end."""
    sightings: list[Sighting] = field(default_factory=list)
    """With line numbers from 1, counted from the piece's start."""


def scan(piece: Piece, rules: Sequence[Rule]) -> Reading:
    reading = Reading(piece)
    _scan(reading, _windows_of_file(reading), rules)
    return reading


def scan_stream(piece: Piece, read: Read, rules: Sequence[Rule]) -> Reading:
    """A whole file that the caller opened."""
    reading = Reading(piece)
    _scan(reading, _windows_of_stream(reading, read), rules)
    return reading


def events_of(piece: Piece) -> Iterator[LogEvent]:
    """Every event of the piece that begins with a log line, with line numbers as in a reading."""
    reading = Reading(piece)
    for grouping in _groupings(reading, _windows_of_file(reading)):
        yield from grouping.all_events()


def _scan(reading: Reading, windows: Iterable[Window], rules: Sequence[Rule]) -> None:
    needles = needles_of(rules)
    groupings = _groupings(reading, windows)
    reading.sightings = observe((event for each in groupings for event in each.events_with(needles)), rules)


def _groupings(reading: Reading, windows: Iterable[Window]) -> Iterator[Grouping]:
    try:
        for window in windows:
            grouping = Grouping(reading.piece.path, window)
            _count(reading, window, grouping)
            yield grouping
    except (Damaged, OSError) as error:
        reading.trouble = str(error)


def _windows_of_file(reading: Reading) -> Iterator[Window]:
    piece = reading.piece
    if is_binary(sample_of(piece.path)):
        reading.binary = True
        return
    with opened(piece.path, piece.start) as read:
        yield from windows(read, piece.start, piece.end)


def _windows_of_stream(reading: Reading, read: Read) -> Iterator[Window]:
    for window in windows(read, 0, None):
        if window.offset == 0 and is_binary(bytes(window.data[:SAMPLE])):
            reading.binary = True
            return
        yield window


def _count(reading: Reading, window: Window, grouping: Grouping) -> None:
    heads = grouping.own_heads()
    lines = window.own_lines
    reading.bytes += window.own_end - window.own_start
    if len(heads):
        first, last = (window.line_number(int(heads[place])) for place in (0, -1))
        gaps = heads[1:] - heads[:-1]
        reading.beyond += int((gaps[gaps > EVENT_LINES] - EVENT_LINES).sum())
        if reading.events == 0:
            reading.leading = first
        else:
            reading.beyond += max(0, reading.trailing + first - reading.lines - EVENT_LINES)
        reading.trailing = reading.lines + lines - last
        reading.events += len(heads)
    elif reading.events:
        reading.trailing += lines
    else:
        reading.leading += lines
    reading.lines += lines


def placed(readings: Sequence[Reading]) -> list[Sighting]:
    """The sightings of one file's pieces, in their order, with line numbers from 1 in the file."""
    sightings, before = [], 0
    for reading in readings:
        sightings += [moved(sighting, before) for sighting in reading.sightings]
        before += reading.lines
    return sightings


def moved(sighting: Sighting, lines: int) -> Sighting:
    if not lines:
        return sighting
    return replace(
        sighting,
        samples=tuple(replace(sample, line=sample.line + lines) for sample in sighting.samples),
        last=replace(sighting.last, line=sighting.last.line + lines),
    )


def unparsed(readings: Sequence[Reading]) -> int:
    """Lines of one file that belong to no event."""
    total, since, seen = 0, 0, False
    for reading in readings:
        if not reading.events:
            since += reading.leading
            continue
        total += max(0, since + reading.leading - EVENT_LINES) if seen else since + reading.leading
        total += reading.beyond
        seen, since = True, reading.trailing
    return total + (max(0, since - EVENT_LINES) if seen else since)
