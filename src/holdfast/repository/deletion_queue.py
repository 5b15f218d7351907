"""Keys to delete, each not before its time. Pure: callers pass in the time."""

import heapq
import math
from collections.abc import Iterable


class DeletionQueue:
    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._at

    def schedule(self, keys: Iterable[str], at: float) -> None:
        """They may be deleted from `at` on. A key that was scheduled before keeps the later of the two times."""
        for key in keys:
            self._at[key] = max(at, self._at.get(key, at))

    def postpone(self, keys: Iterable[str], until: float) -> None:
        for key in keys:
            self._at[key] = until

    def failed(self, key: str) -> None:
        """Keys with fewer failures come first, so that one that cannot be deleted does not block the others."""
        self._failures[key] = self._failures.get(key, 0) + 1

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._at.pop(key, None)
            self._failures.pop(key, None)

    def next(self, now: float, count: int) -> list[str]:
        ready = (key for key, at in self._at.items() if at <= now)
        return heapq.nsmallest(count, ready, key=lambda key: (self._failures.get(key, 0), *objects_first(key)))

    def earliest(self) -> float:
        return min(self._at.values(), default=math.inf)

    def amount(self, now: float) -> tuple[int, int]:
        """How many may be deleted now, and how many later."""
        ready = sum(at <= now for at in self._at.values())
        return ready, len(self._at) - ready


def objects_first(key: str) -> tuple[bool, str]:
    """Manifests last: while a manifest exists, it explains why its objects exist."""
    return key.startswith("manifests/"), key
