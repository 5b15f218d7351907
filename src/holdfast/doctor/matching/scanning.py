"""One worker scans one piece of a file: what the rules recognise in it, and its counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.engines import Engine, fast
from holdfast.doctor.matching.grouping import EVENT_LINES, Grouping
from holdfast.doctor.matching.sightings import Sighting, observe
from holdfast.doctor.reading.blocks import SAMPLE, Damaged, Piece, is_binary, opened, sample_of
from holdfast.doctor.reading.engines import engine_of
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.pasted import MOST_BYTES, written
from holdfast.doctor.reading.text import shown
from holdfast.doctor.reading.windows import Read, Window, decoded, short_window, windows

_SHOWN_EXCEPTIONS = 3


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
    exceptions: int = 0
    """In the events that were examined: all of a short text, of a longer one those in which a rule finds its words."""
    thrown: list[str] = field(default_factory=list)
    """The first of them."""
    engines: set[str] = field(default_factory=set)
    binary: bool = False
    trouble: str | None = None
    """Why the piece could not be read, or not to its end."""
    sightings: list[Sighting] = field(default_factory=list)
    """With line numbers from 1, counted from the piece's start."""


def scan(piece: Piece, rules: Sequence[Rule], engine: Engine | None = None) -> Reading:
    """With the fast engine, unless another one is given."""
    reading, engine = Reading(piece), engine or fast()
    _scan(reading, _windows_of_file(reading, engine), rules, engine)
    return reading


def scan_stream(piece: Piece, read: Read, rules: Sequence[Rule], engine: Engine | None = None) -> Reading:
    """A whole file that the caller opened."""
    reading, engine = Reading(piece), engine or fast()
    _scan(reading, _windows_of_stream(reading, read, engine), rules, engine)
    return reading


def events_of(piece: Piece) -> Iterator[LogEvent]:
    """Every event of the piece that begins with a log line, with line numbers as in a reading."""
    reading, engine = Reading(piece), fast()
    for grouping in _groupings(reading, _windows_of_file(reading, engine), engine):
        yield from grouping.all_events()


def _scan(reading: Reading, windows: Iterable[Window], rules: Sequence[Rule], engine: Engine) -> None:
    needles = engine.needles(tuple(rules))
    groupings = _groupings(reading, windows, engine)
    events = (event for each in groupings for event in each.events_with(needles))
    reading.sightings = observe(_noted(reading, events), rules, engine)


def _noted(reading: Reading, events: Iterable[LogEvent]) -> Iterator[LogEvent]:
    """What is recognised even where no rule knows it."""
    for event in events:
        if event.exceptions:
            reading.exceptions += 1
            if len(reading.thrown) < _SHOWN_EXCEPTIONS:
                reading.thrown.append(shown(event))
        if engine := engine_of(event):
            reading.engines.add(engine)
        yield event


def _groupings(reading: Reading, windows: Iterable[Window], engine: Engine) -> Iterator[Grouping]:
    try:
        for window in windows:
            grouping = Grouping(reading.piece.path, window, engine)
            _count(reading, window, grouping)
            yield grouping
    except (Damaged, OSError) as error:
        reading.trouble = str(error)


def _windows_of_file(reading: Reading, engine: Engine) -> Iterator[Window]:
    piece = reading.piece
    if is_binary(sample_of(piece.path)):
        reading.binary = True
        return
    with opened(piece.path, piece.start) as read:
        if piece == Piece(piece.path):
            yield from _windows_of_whole(read, engine)
        else:
            yield from windows(read, piece.start, piece.end, engine.line_starts)


def _windows_of_stream(reading: Reading, read: Read, engine: Engine) -> Iterator[Window]:
    for window in _windows_of_whole(read, engine):
        if window.offset == 0 and is_binary(bytes(window.data[:SAMPLE])):
            reading.binary = True
            return
        yield window


def _windows_of_whole(read: Read, engine: Engine) -> Iterator[Window]:
    """Of a short text, one window with what a runtime wrote, all of which is examined; else those of the bytes."""
    beginning = _beginning(read)
    if len(beginning) <= MOST_BYTES:
        lines = written(decoded(beginning))
        numbers = [line.number for line in lines]
        yield short_window([line.text for line in lines], numbers, beginning, engine.line_starts)
    else:
        yield from windows(_read_again(beginning, read), 0, None, engine.line_starts)


def _beginning(read: Read) -> bytes:
    """More than a short text has, or all there is."""
    parts, length = [], 0
    while length <= MOST_BYTES and (chunk := read(MOST_BYTES + 1 - length)):
        parts.append(chunk)
        length += len(chunk)
    return b"".join(parts)


def _read_again(beginning: bytes, read: Read) -> Read:
    rest = memoryview(beginning)

    def from_beginning(size: int) -> bytes:
        nonlocal rest
        if not rest:
            return read(size)
        chunk, rest = bytes(rest[:size]), rest[size:]
        return chunk

    return from_beginning


def _count(reading: Reading, window: Window, grouping: Grouping) -> None:
    heads = grouping.own_heads()
    lines = window.own_lines
    reading.bytes += window.own_end - window.own_start
    if len(heads):
        first, last = (window.line_number(heads[place]) for place in (0, -1))
        reading.beyond += beyond_events(heads, 0, len(heads) - 1)
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


def beyond_events(heads: Sequence[int], first: int, last: int) -> int:
    """Lines between the first and the last of these heads that are too far from any. There are millions of heads:
    halves without room for such a gap are not looked at."""
    room = heads[last] - heads[first] - (last - first)
    if room < EVENT_LINES:
        return 0
    if last - first == 1:
        return int(heads[last] - heads[first] - EVENT_LINES)
    middle = (first + last) // 2
    return beyond_events(heads, first, middle) + beyond_events(heads, middle, last)


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
