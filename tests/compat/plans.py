"""What the compatibility suite runs: which queries, in which state format, under which versions one after the other."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tests.compat.environments import VERSIONS
from tests.end_to_end.operators import CASES, NEEDS_ROCKSDB

QUERIES = tuple(name for name, case in CASES.items() if case.columns)
"""All but those with a writer of their own."""

FORMATS = ("hdfs", "rocksdb", "rocksdb-changelog", "rocksdb-v2")
SINCE = {"rocksdb-v2": (4, 0), "pandas-state": (4, 0), "processor-ttl": (4, 0), "processor-timers": (4, 1)}
"""Formats and queries that Spark has not always had; but `applyInPandasWithState` is older, only that of 3.5 does not
work with the pyarrow of today."""
UPGRADED_SINCE = {"join": (4, 0)}
"""Of 3.5's joins Spark 4.0 says that columns of their state can be null which could not, and refuses the state."""
INTO_FILES = frozenset({"stateless", "distinct-within-watermark", "sessions"})
"""Queries whose sink is Files; that of the others is Delta."""
CHAIN, LEAP = "chain", "leap"


@dataclass(frozen=True)
class Plan:
    column: str
    """A version, for a restart under it; `chain`, from each to the next; `leap`, from the oldest to the newest."""
    state_format: str
    versions: tuple[str, ...]
    cases: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.state_format}: {' → '.join(self.versions)}: {', '.join(self.cases)}"


def feature(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def exists(case: str, state_format: str, version: str) -> bool:
    if state_format == "hdfs" and case in NEEDS_ROCKSDB:
        return False
    return all(feature(version) >= SINCE.get(name, (0,)) for name in (case, state_format))


def plans(wanted: Collection[str]) -> Iterator[Plan]:
    for state_format in FORMATS:
        by_first: dict[str, list[str]] = defaultdict(list)
        for case in wanted:
            able = (version for version in VERSIONS if feature(version) >= UPGRADED_SINCE.get(case, (0,)))
            first = next((version for version in able if exists(case, state_format, version)), None)
            if first is not None:
                by_first[first].append(case)
        for version in VERSIONS:
            cases = tuple(case for case in wanted if exists(case, state_format, version))
            if cases:
                yield Plan(version, state_format, (version, version), cases)
        for first, begun in by_first.items():
            onwards = VERSIONS[VERSIONS.index(first) :]
            yield Plan(CHAIN, state_format, onwards, tuple(begun))
            yield Plan(LEAP, state_format, (first, onwards[-1]), tuple(begun))
