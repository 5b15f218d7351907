"""What the readings of all files add up to, whoever read them: this process, or the workers of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import structs

from holdfast.doctor.matching.clues import Rule
from holdfast.doctor.matching.engines import Engine
from holdfast.doctor.matching.scanning import Reading, placed, scan, unparsed
from holdfast.doctor.matching.sightings import Sighting, merged
from holdfast.doctor.reading.blocks import Piece


@dataclass(frozen=True)
class Examination:
    sightings: list[Sighting]
    files: int
    bytes: int
    lines: int
    events: int
    unparsed: int
    """Lines that belong to no event."""
    exceptions: int
    """In the events that were examined."""
    thrown: tuple[str, ...]
    """The first of them."""
    engines: tuple[str, ...]
    binary: tuple[str, ...]
    """Files that are not text and were skipped."""
    troubles: tuple[str, ...]
    """Why files could not be read, or not to their end."""
    first_lines: dict[Piece, int] = field(default_factory=dict)
    """The number, from 1, of the first line of each piece."""


def examine_here(files: Iterable[str], rules: Sequence[Rule], engine: Engine) -> Examination:
    """In this process, file by file, in bounded memory."""
    return added_up(scan(Piece(path), rules, engine) for path in files)


def added_up(readings: Iterable[Reading]) -> Examination:
    files: dict[str, list[Reading]] = {}
    for reading in sorted(readings, key=lambda reading: (reading.piece.path, reading.piece.start)):
        files.setdefault(reading.piece.path, []).append(reading)
    everything = [reading for file in files.values() for reading in file]
    return Examination(
        sightings=merged(sighting for file in files.values() for sighting in placed(file)),
        files=len(files),
        bytes=sum(reading.bytes for reading in everything),
        lines=sum(reading.lines for reading in everything),
        events=sum(reading.events for reading in everything),
        unparsed=sum(unparsed(file) for file in files.values()),
        exceptions=sum(reading.exceptions for reading in everything),
        thrown=tuple(text for reading in everything for text in reading.thrown)[:3],
        engines=tuple(sorted({engine for reading in everything for engine in reading.engines})),
        binary=tuple(path for path, file in files.items() if any(reading.binary for reading in file)),
        troubles=tuple(reading.trouble for reading in everything if reading.trouble),
        first_lines=_first_lines(files.values()),
    )


def renamed(examination: Examination, names: Mapping[str, str]) -> Examination:
    """With other names for some of the files."""

    def name(source: str) -> str:
        return names.get(source, source)

    def other(sighting: Sighting) -> Sighting:
        key = structs.replace(sighting.key, source=name(sighting.key.source))
        samples = [structs.replace(sample, source=name(sample.source)) for sample in (*sighting.samples, sighting.last)]
        return structs.replace(sighting, key=key, samples=tuple(samples[:-1]), last=samples[-1])

    return (
        replace(examination, sightings=[other(sighting) for sighting in examination.sightings])
        if names
        else examination
    )


def _first_lines(files: Iterable[Sequence[Reading]]) -> dict[Piece, int]:
    numbers = {}
    for file in files:
        number = 1
        for reading in file:
            numbers[reading.piece] = number
            number += reading.lines
    return numbers
