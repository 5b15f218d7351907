"""Clues, aggregated: what is kept of millions of events, in bounded memory.

The aggregation is associative and commutative, so the result depends neither on the order nor on how logs were split.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.engines import Engine, fast
from holdfast.doctor.matching.trust import is_about_the_job, is_loose_statement, is_told, word_for_word_of
from holdfast.doctor.reading.engines import engine_of
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import whole

WINDOW_MS = 5 * 60 * 1000
_WINDOWS = 1_024
"""Windows of one kind of sighting before they are merged: three and a half days without a gap."""
_AT_ONCE = 20_000
_MENTIONS = 8
_CHECKPOINTS = 20


class Key(Struct, frozen=True):
    """Clues with the same key are one sighting."""

    code: str
    variant: str
    engine: str
    """`flink`, `spark`, or empty when it is unknown."""
    job: str
    host: str
    source: str
    window: int
    """Number of the window since 1970; -1 when the log has no time."""
    doubled: int = 0
    """How often the window of five minutes was doubled."""

    @property
    def kind(self) -> tuple[str, ...]:
        """All but the time."""
        return (self.code, self.variant, self.engine, self.job, self.host, self.source)

    def wider(self, doubled: int) -> Key:
        return replace(self, window=self.window >> (doubled - self.doubled), doubled=doubled)


class Sample(Struct, frozen=True, order=True):
    """A line to show; ordered by time, then place."""

    time: int
    """-1 when the log has no time."""
    source: str
    line: int
    text: str


class Measure(Struct, frozen=True):
    count: int
    total: int
    least: int
    most: int

    def plus(self, other: Measure) -> Measure:
        return Measure(
            self.count + other.count,
            self.total + other.total,
            min(self.least, other.least),
            max(self.most, other.most),
        )


class Sighting(Struct, frozen=True):
    key: Key
    count: int
    samples: tuple[Sample, ...]
    """The first ones."""
    last: Sample
    checkpoints: tuple[int, ...] = ()
    """The lowest ones."""
    tasks: tuple[str, ...] = ()
    mentions: Mapping[str, tuple[str, ...]] = {}
    measures: Mapping[str, Measure] = {}
    keeps: int = 3
    """Samples."""

    def plus(self, other: Sighting) -> Sighting:
        assert self.key == other.key, "only sightings with the same key add up"
        return Sighting(
            self.key,
            self.count + other.count,
            _first_of(self.samples, other.samples, self.keeps),
            max(self.last, other.last),
            _first_of(self.checkpoints, other.checkpoints, _CHECKPOINTS),
            _least(self.tasks, other.tasks),
            _all_mentioned(self.mentions, other.mentions),
            _added(self.measures, other.measures),
            self.keeps,
        )


_T = TypeVar("_T", str, int, Sample)


def observe(events: Iterable[LogEvent], rules: Iterable[Rule], engine: Engine | None = None) -> list[Sighting]:
    """What the rules recognise in these events, aggregated."""
    rules = tuple(rules)
    wanted = _wanted(rules, engine or fast())
    seen: dict[Key, Sighting] = {}
    most = _AT_ONCE
    for event in events:
        for number in wanted.by(event):
            clue = rules[number].recognise(event)
            if clue is not None:
                _add(seen, _sighting(rules[number], event, clue))
        if len(seen) > most:
            seen = {sighting.key: sighting for sighting in bounded(seen.values())}
            most = max(_AT_ONCE, 2 * len(seen))
    return bounded(seen.values())


class _Wanted:
    """Which rules may examine an event: those that find their words in it, if it is evidence."""

    def __init__(self, rules: tuple[Rule, ...], engine: Engine) -> None:
        self._needles = engine.needles(rules)
        word_for_word = tuple(dataclasses.replace(rule, needles=word_for_word_of(rule.needles)) for rule in rules)
        self._word_for_word = engine.needles(word_for_word)
        guides = tuple(rule if rule.of_guides else dataclasses.replace(rule, needles=()) for rule in word_for_word)
        self._of_guides = engine.needles(guides)

    def by(self, event: LogEvent) -> Sequence[int]:
        if is_about_the_job(event):
            return self._needles.rules_for("\n".join((whole(event), *event.frames)))
        if is_loose_statement(event):
            return self._word_for_word.rules_for(event.message)
        return self._of_guides.rules_for(event.message) if is_told(event) else ()


@lru_cache(maxsize=8)
def _wanted(rules: tuple[Rule, ...], engine: Engine) -> _Wanted:
    """Many small files have the same rules."""
    return _Wanted(rules, engine)


def merged(sightings: Iterable[Sighting]) -> list[Sighting]:
    seen: dict[Key, Sighting] = {}
    for sighting in sightings:
        _add(seen, sighting)
    return bounded(seen.values())


def bounded(sightings: Iterable[Sighting], windows: int = _WINDOWS) -> list[Sighting]:
    """Sightings of one kind in more windows than this are merged into wider windows; the counts stay complete.

    The windows of a part of the logs are among those of the whole, so a part never doubles more often than the whole.
    """
    kinds: dict[tuple[str, ...], list[Sighting]] = defaultdict(list)
    for sighting in sightings:
        kinds[sighting.key.kind].append(sighting)
    return [sighting for kind in kinds.values() for sighting in _of_one_kind(kind, windows)]


def _of_one_kind(kind: list[Sighting], windows: int) -> Iterable[Sighting]:
    doubled = max(sighting.key.doubled for sighting in kind)
    if doubled == 0 and len(kind) <= windows:
        return kind
    while len({sighting.key.wider(doubled).window for sighting in kind}) > windows:
        doubled += 1
    seen: dict[Key, Sighting] = {}
    for sighting in kind:
        _add(seen, replace(sighting, key=sighting.key.wider(doubled)))
    return seen.values()


def _add(seen: dict[Key, Sighting], sighting: Sighting) -> None:
    known = seen.get(sighting.key)
    seen[sighting.key] = sighting if known is None else known.plus(sighting)


def _sighting(rule: Rule, event: LogEvent, clue: Clue) -> Sighting:
    window = -1 if event.time is None else event.time // WINDOW_MS
    key = Key(rule.code, clue.variant, engine_of(event), event.job or "", event.host or "", event.source, window)
    sample = Sample(-1 if event.time is None else event.time, event.source, event.line, clue.text)
    return Sighting(
        key,
        1,
        (sample,),
        sample,
        () if event.checkpoint is None else (event.checkpoint,),
        () if event.task is None else (event.task,),
        {name: (value,) for name, value in clue.mentions.items()},
        {name: Measure(1, value, value, value) for name, value in clue.measures.items()},
        rule.samples,
    )


def _first_of(ours: tuple[_T, ...], theirs: tuple[_T, ...], most: int) -> tuple[_T, ...]:
    """The smallest of both, in order. Mostly the later ones are larger, and there are enough."""
    if not theirs or (len(ours) == most and ours[-1] <= theirs[0]):
        return ours
    return tuple(sorted(set(ours + theirs))[:most])


def _least(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[str, ...]:
    return ours if ours == theirs else _first_of(ours, theirs, _MENTIONS)


def _all_mentioned(
    ours: Mapping[str, tuple[str, ...]], theirs: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    if not theirs:
        return ours
    return {name: _least(ours.get(name, ()), theirs.get(name, ())) for name in sorted({*ours, *theirs})}


def _added(ours: Mapping[str, Measure], theirs: Mapping[str, Measure]) -> Mapping[str, Measure]:
    if not theirs:
        return ours
    total = dict(ours)
    for name, measure in theirs.items():
        total[name] = total[name].plus(measure) if name in total else measure
    return dict(sorted(total.items()))
