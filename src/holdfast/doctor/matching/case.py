"""Everything that was recognised about one job, from all its logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import PurePosixPath

from holdfast.doctor.matching.sightings import Measure, Sighting
from holdfast.doctor.matching.spans import Spans

CONTEXT = "context:"
"""Prefix of codes that are context and no trouble by themselves."""
_REACH_MS = 30 * 60 * 1000
_SAME_DAYS_MS = 24 * 60 * 60 * 1000
_SAME_LOG = frozenset(("pod", "file"))


@dataclass(frozen=True)
class Case:
    job: str
    sightings: tuple[Sighting, ...]

    @cached_property
    def _by_code(self) -> dict[str, list[Sighting]]:
        """Rules ask for one code at a time, and often."""
        found: dict[str, list[Sighting]] = defaultdict(list)
        for sighting in self.sightings:
            found[sighting.key.code].append(sighting)
        return found

    def of(self, code: str, *variants: str) -> list[Sighting]:
        return [s for s in self._by_code.get(code, ()) if not variants or s.key.variant in variants]

    def near(self, seen: Sequence[Sighting], code: str, *variants: str) -> list[Sighting]:
        """Within half an hour before or after."""
        spans = Spans(seen)
        return [other for other in self.of(code, *variants) if spans.touch(other, _REACH_MS, _REACH_MS)]

    def after(self, seen: Sequence[Sighting], code: str) -> list[Sighting]:
        """Later than everything in `seen`, by time, or by line where a log has no times."""
        last = max((sighting.last for sighting in seen), default=None)
        return [other for other in self.of(code) if last is not None and _is_later(other, last.time, last.line)]

    def measure(self, code: str, name: str) -> Measure | None:
        total: Measure | None = None
        for sighting in self.of(code):
            measure = sighting.measures.get(name)
            if measure is not None:
                total = measure if total is None else total.plus(measure)
        return total

    @property
    def engine(self) -> str:
        """By the majority of the sightings."""
        votes: dict[str, int] = defaultdict(int)
        for sighting in self.sightings:
            votes[sighting.key.engine] += sighting.count
        votes.pop("", None)
        return max(sorted(votes), key=lambda name: votes[name], default="")

    @property
    def version(self) -> tuple[int, ...] | None:
        versions = sorted(mentioned(self.of(CONTEXT + "version"), "version"))
        return tuple(int(part) for part in versions[0].split(".")) if versions else None


def mentioned(sightings: Iterable[Sighting], name: str) -> set[str]:
    return {value for sighting in sightings for value in sighting.mentions.get(name, ())}


def _is_later(sighting: Sighting, time: int, line: int) -> bool:
    if sighting.last.time >= 0 and time >= 0:
        return sighting.last.time > time
    return sighting.last.line > line


def cases(sightings: Iterable[Sighting]) -> list[Case]:
    """One per job. A sighting without a job belongs to the only job of its pod, file, directory or input; context that
    belongs to none of them (a cluster of many jobs) is shared by the jobs of its file."""
    everything = sorted(sightings, key=lambda sighting: (sighting.samples[0], _order(sighting)))
    owners = _Owners(everything)
    found: dict[str, list[Sighting]] = defaultdict(list)
    shared: list[Sighting] = []
    for sighting in everything:
        owner = sighting.key.job or owners.only_job_around(sighting)
        if owner is None and sighting.key.code.startswith(CONTEXT):
            shared.append(sighting)
        else:
            found[owner if owner is not None else f"file {sighting.key.source}"].append(sighting)
    for sighting in shared:
        for job in owners.jobs_of(sighting) or {f"file {sighting.key.source}"}:
            found[job].append(sighting)
    return [Case(job, tuple(found[job])) for job in sorted(found)]


class _Owners:
    """Which jobs each pod, file and directory mentions."""

    def __init__(self, sightings: Sequence[Sighting]) -> None:
        self._jobs: dict[tuple[str, ...], set[str]] = defaultdict(set)
        own: dict[str, list[Sighting]] = defaultdict(list)
        for sighting in sightings:
            if sighting.key.job:
                own[sighting.key.job].append(sighting)
                for place in self._places(sighting):
                    self._jobs[place].add(sighting.key.job)
        self._engines = {job: {sighting.key.engine for sighting in seen} - {""} for job, seen in own.items()}
        self._spans = {job: Spans(seen) for job, seen in own.items()}

    def only_job_around(self, sighting: Sighting) -> str | None:
        """By the smallest place that mentions a job that the sighting may belong to."""
        for place in self._places(sighting):
            candidates = (job for job in self._jobs.get(place, ()) if self._may_be_of(job, sighting, place))
            jobs = list(islice(candidates, 2))
            if jobs:
                return jobs[0] if len(jobs) == 1 else None
        return None

    def _may_be_of(self, job: str, sighting: Sighting, place: tuple[str, ...]) -> bool:
        """Not a job of the other engine; and logs that are only in the same directory must be of the same days."""
        engine = sighting.key.engine
        if engine and self._engines[job] and engine not in self._engines[job]:
            return False
        return place[0] in _SAME_LOG or self._spans[job].touch(sighting, _SAME_DAYS_MS, _SAME_DAYS_MS)

    def jobs_of(self, sighting: Sighting) -> set[str]:
        return self._jobs.get(("file", sighting.key.source), set())

    @staticmethod
    def _places(sighting: Sighting) -> tuple[tuple[str, ...], ...]:
        source = sighting.key.source
        return (
            ("pod", source, sighting.key.host),
            ("file", source),
            ("directory", _directory(source)),
            ("input",),
        )


@cache
def _directory(source: str) -> str:
    return str(PurePosixPath(source).parent)


def _order(sighting: Sighting) -> tuple[str, ...]:
    key = sighting.key
    return (*key.kind, str(key.window))
