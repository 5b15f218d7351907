"""Home, work directories and sink must not contain one another. Pure, except that it follows symbolic links.

A cleanup of one of them (VACUUM of the table, the sweep of a home, a new restore) would delete the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import InvalidSettings
from holdfast.repository.entries import RunStarted

_SAME = {"": "file", "s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_NAME_NODE = ":8020"
"""The default port of a NameNode."""


@dataclass(frozen=True)
class Spot:
    what: str
    shown: str
    root: str
    """The file system, bucket or cluster."""
    parts: tuple[str, ...]

    def holds(self, other: Spot) -> bool:
        return self.root == other.root and other.parts[: len(self.parts)] == self.parts


def spot(what: str, place: str) -> Spot:
    """`place` is a path or a URL."""
    split = urlsplit(place)
    if "://" not in place or split.scheme == "file":
        path = Path(unquote(split.path) if "://" in place else place)
        return Spot(what, place, "file", path.resolve().parts)
    parts = tuple(part for part in split.path.split("/") if part)
    scheme = _SAME.get(split.scheme, split.scheme)
    host = split.netloc.lower().removesuffix(_NAME_NODE) if scheme == "hdfs" else split.netloc
    return Spot(what, place, f"{scheme}://{host}", parts)


def require_apart(home: str, work: str, sink: str | None) -> None:
    """Refuse locations of which one contains another, before anything is changed. `sink` is the sink's description,
    such as `delta:/data/orders`; the location of a custom sink is unknown."""
    spots = [spot("home", home), spot("work", work), *_of_sink(sink)]
    for one, other in combinations(spots, 2):
        outer, inner = (one, other) if one.holds(other) else (other, one)
        if outer.holds(inner):
            raise InvalidSettings(
                f"{inner.what} {inner.shown} lies in {outer.what} {outer.shown}: a cleanup of the one would "
                f"delete the other",
                hint=f"choose another place for one of them: --{outer.what} or --{inner.what}",
            )


def require_outside(target: str, home: str, runs: Sequence[RunStarted]) -> None:
    """Refuse to write a directory where holdfast, or readers of a sink, would take it for something else."""
    inner = spot("directory", target)
    works = (spot("work directory", run.work) for run in runs if run.work)
    sinks = (found for run in runs for found in _of_sink(run.sink))
    for outer in (spot("home", home), *works, *sinks):
        if outer.holds(inner):
            raise InvalidSettings(
                f"could not write to {target}: it lies in the {outer.what} {outer.shown} of the job",
                hint="name a directory outside of home, work directory and sink",
            )


def _of_sink(described: str | None) -> list[Spot]:
    kind, _, place = (described or "").partition(":")
    return [spot("sink", place)] if kind in ("delta", "files") else []
