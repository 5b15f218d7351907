"""Logs of months, of thousands of files: what is kept stays bounded, and the answer the same however they were cut."""

import itertools
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload

from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.grouping import EVENT_LINES
from holdfast.doctor.matching.scanning import beyond_events
from holdfast.doctor.matching.sightings import Sighting, bounded, observe
from holdfast.doctor.matching.spans import Spans
from holdfast.doctor.reading.blocks import Piece
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.inputs import piece_size, pieces_of, shared_out
from tests.doctor.events import MINUTE, NOON, completed, expired

WINDOWS = 6


def observed(events: Iterable[LogEvent]) -> list[Sighting]:
    return observe(events, [rule for rule in RULES if rule.code in ("checkpoint-expired", "context:completed")])


def total(sightings: list[Sighting]) -> int:
    return sum(sighting.count for sighting in sightings)


def test_windows_grow_with_the_length_of_a_log_and_nothing_is_lost_from_the_counts() -> None:
    month = [expired(n, NOON + n * 5 * MINUTE, line=n) for n in range(30 * 24 * 12)]
    seen = observed(month)
    assert len(seen) <= 1_024
    assert total(seen) == len(month)
    assert min(sighting.samples[0] for sighting in seen).line == 0
    assert max(sighting.last for sighting in seen).line == len(month) - 1


def test_what_has_no_time_stays_apart() -> None:
    seen = bounded(observed([expired(1, None), *(expired(n, NOON + n * 60 * MINUTE) for n in range(40))]), 4)
    assert sum(sighting.samples[0].time < 0 for sighting in seen) == 1


def test_however_a_long_log_is_cut_the_same_windows_come_out() -> None:
    generator = random.Random(7)
    for _ in range(20):
        times = sorted(generator.sample(range(100_000), 200))
        events = [
            each(n, NOON + at * MINUTE, line=n, host=generator.choice("xy"))
            for n, at in enumerate(times)
            for each in (expired, completed)
        ]
        seen = observed(events)
        whole = bounded(seen, WINDOWS)
        parts: list[list[Sighting]] = [[] for _ in range(4)]
        for sighting in seen:
            generator.choice(parts).append(sighting)
        together = bounded(itertools.chain.from_iterable(bounded(part, WINDOWS) for part in parts), WINDOWS)
        assert {sighting.key: sighting for sighting in together} == {sighting.key: sighting for sighting in whole}
        assert total(together) == total(seen)


def test_spans_touch_what_a_look_at_each_sighting_would_say() -> None:
    generator = random.Random(3)
    before, after = 10 * MINUTE, 2 * MINUTE

    def some(count: int) -> list[Sighting]:
        starts = [NOON + generator.randrange(3_000) * MINUTE for _ in range(count)]
        return observed((expired(n, at + k * MINUTE) for n, at in enumerate(starts) for k in range(n % 9)))

    def touches(one: Sighting, other: Sighting) -> bool:
        return other.samples[0].time - after <= one.last.time and one.samples[0].time - before <= other.last.time

    for _ in range(50):
        some_of_them, others = some(generator.randrange(12)), some(30)
        spans = Spans(some_of_them)
        for other in others:
            assert spans.touch(other, before, after) == any(touches(other, each) for each in some_of_them)


def test_what_has_no_time_touches_everything() -> None:
    (timeless,) = observed([expired(1, None)])
    (timed,) = observed([expired(1)])
    assert Spans([timeless]).touch(timed, 0, 0)
    assert Spans([timed]).touch(timeless, 0, 0)
    assert not Spans([]).touch(timeless, 0, 0)


def test_twice_the_logs_take_two_cores_twice_as_long(tmp_path: Path) -> None:
    """Tasks are taken by whichever core is free; what counts is when the last one ends."""

    def ends(megabytes: int) -> float:
        files = [tmp_path / f"{megabytes}-{number}" for number in range(100)]
        for file in files:
            with file.open("wb") as opened:
                opened.truncate(megabytes * 2**20 // 100)
        size = piece_size(map(str, files), cores=2)
        pieces = list(pieces_of(map(str, files), size))
        cores = [0, 0]
        for task in shared_out(pieces, size, cores=2):
            cores[cores.index(min(cores))] += sum(_bytes(pieces[place]) for place in task)
        return max(cores)

    for megabytes in (16, 64, 128, 300, 1024):
        assert ends(2 * megabytes) / ends(megabytes) < 2.2


def _bytes(piece: Piece) -> int:
    return (Path(piece.path).stat().st_size if piece.end is None else piece.end) - piece.start


def test_lines_too_far_from_any_event_are_found_among_millions() -> None:
    generator = random.Random(5)
    for _ in range(30):
        heads = sorted(generator.sample(range(60_000), generator.randrange(1, 300)))
        told = sum(max(0, after - head - EVENT_LINES) for head, after in itertools.pairwise(heads))
        assert beyond_events(heads, 0, len(heads) - 1) == told
    looked_at = _Counted(range(0, 12_000_000, 3))
    assert beyond_events(looked_at, 0, len(looked_at) - 1) == 0
    assert looked_at.times < len(looked_at) / 50


class _Counted(Sequence[int]):
    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers, self.times = numbers, 0

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        self.times += 1
        return self.numbers[place]
