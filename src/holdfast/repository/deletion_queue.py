"""Keys to delete, each not before its time. Pure: callers pass in the time.

A slice costs its own length, however many keys wait: the two heaps below keep what was scheduled in order. An item in
them that `_at` and `_failures` no longer agree with is stale, and dropped when it comes up.
"""

import heapq
import math
from collections.abc import Iterable

_Rank = tuple[int, bool, str]
"""Number of failures, then `objects_first`."""


class DeletionQueue:
    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._waiting: list[tuple[float, str]] = []
        """By their times."""
        self._ready: list[_Rank] = []
        """Whose time has come."""

    def __contains__(self, key: str) -> bool:
        return key in self._at

    def schedule(self, keys: Iterable[str], at: float) -> None:
        """They may be deleted from `at` on. A key that was scheduled before keeps the later of the two times."""
        for key in keys:
            if self._at.get(key, -math.inf) < at:
                self._wait(key, at)

    def postpone(self, keys: Iterable[str], until: float) -> None:
        for key in keys:
            self._wait(key, until)

    def _wait(self, key: str, at: float) -> None:
        self._at[key] = at
        heapq.heappush(self._waiting, (at, key))

    def failed(self, key: str) -> None:
        """Keys with fewer failures come first, so that one that cannot be deleted does not block the others."""
        self._failures[key] = self._failures.get(key, 0) + 1
        if key in self._at:
            heapq.heappush(self._ready, self._rank(key))

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._at.pop(key, None)
            self._failures.pop(key, None)

    def next(self, now: float, count: int) -> list[str]:
        while self._waiting and self._waiting[0][0] <= now:
            at, key = heapq.heappop(self._waiting)
            if self._at.get(key) == at:
                heapq.heappush(self._ready, self._rank(key))
        chosen: dict[str, _Rank] = {}
        while self._ready and len(chosen) < count:
            rank = heapq.heappop(self._ready)
            key = rank[2]
            if self._at.get(key, math.inf) <= now and rank == self._rank(key):
                chosen[key] = rank
        for rank in chosen.values():  # they stay until they are forgotten
            heapq.heappush(self._ready, rank)
        return list(chosen)

    def earliest(self) -> float:
        while self._waiting and self._at.get(self._waiting[0][1]) != self._waiting[0][0]:
            heapq.heappop(self._waiting)
        while self._ready and not self._is_current(self._ready[0]):
            heapq.heappop(self._ready)
        ready = self._at[self._ready[0][2]] if self._ready else math.inf
        return min(ready, self._waiting[0][0] if self._waiting else math.inf)

    def _is_current(self, rank: _Rank) -> bool:
        return rank[2] in self._at and rank == self._rank(rank[2])

    def amount(self, now: float) -> tuple[int, int]:
        """How many may be deleted now, and how many later."""
        ready = sum(at <= now for at in self._at.values())
        return ready, len(self._at) - ready

    def _rank(self, key: str) -> _Rank:
        return (self._failures.get(key, 0), *objects_first(key))


def objects_first(key: str) -> tuple[bool, str]:
    """Manifests last: while a manifest exists, it explains why its objects exist."""
    return key.startswith("manifests/"), key
