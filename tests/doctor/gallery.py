"""One excerpt that shows each finding, and one near miss."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.doctor.collection import Excerpt, excerpts
from tests.doctor.wild import heap

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Pair:
    code: str
    shows: Excerpt
    where: str
    """Where the excerpt was seen; empty when it is of the collection."""
    miss: str


@cache
def gallery() -> tuple[Pair, ...]:
    known = {excerpt.name: (excerpt, "") for excerpt in excerpts()}
    known |= {seen.excerpt.name: (seen.excerpt, seen.where) for seen in heap("first")}
    told = tomllib.loads((HERE / "gallery.toml").read_text())
    return tuple(Pair(code, *known[says["shows"]], says["miss"]) for code, says in told.items())
