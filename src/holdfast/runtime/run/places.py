"""Home, work directories and sink must lie apart. Pure but for symbolic links, which are followed.

Whoever cleans one of them up (a VACUUM of the table, the sweep of a home, a new restore) would clean up the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import InvalidSettings

_SAME = {"": "file", "s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}
_NAME_NODE = ":8020"
"""The port of a NameNode that a URL need not say."""


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
    """Refuse places of which one lies in another, before anything is touched. `sink` is what the sink says of itself,
    such as `delta:/data/orders`; of a sink that is not ours the place is not known."""
    spots = [spot("home", home), spot("work", work)]
    kind, _, place = (sink or "").partition(":")
    if kind in ("delta", "files"):
        spots.append(spot("sink", place))
    for one, other in combinations(spots, 2):
        outer, inner = (one, other) if one.holds(other) else (other, one)
        if outer.holds(inner):
            raise InvalidSettings(
                f"{inner.what} {inner.shown} lies in {outer.what} {outer.shown}: whoever cleans up the one would "
                f"clean up the other",
                hint=f"choose another place for one of them: --{outer.what} or --{inner.what}",
            )
