"""Shards that several groups copy: a shard is in the home when all of its parts are.

Lanes ask at the same time. A part that arrives after another one has failed is forgotten: the shard is copied again as
a whole, and finds that part in the home.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from holdfast.checkpoint.layout import ShardPlan
from holdfast.identifiers import ShardId
from holdfast.snapshot.carrier import ShardCopy


class Parts:
    def __init__(self, plans: Iterable[ShardPlan], groups: Iterable[Sequence[ShardPlan]]) -> None:
        counted = Counter(part.shard for group in groups for part in group)
        self._plans = {plan.shard: plan for plan in plans if counted[plan.shard] > 1}
        self._missing = {shard: counted[shard] for shard in self._plans}
        """How many parts. A shard with a failed one is not in it."""
        self._found: dict[ShardId, list[ShardCopy]] = {}
        self._changing = threading.Lock()

    def add(self, copy: ShardCopy) -> ShardCopy | None:
        """The whole shard once this was its last part; None until then."""
        shard = copy.shard
        if shard not in self._plans:
            return copy
        with self._changing:
            if shard not in self._missing:
                return None
            self._found.setdefault(shard, []).append(copy)
            self._missing[shard] -= 1
            return _whole(self._plans[shard], self._found.pop(shard)) if not self._missing[shard] else None

    def fail(self, shards: Iterable[ShardId]) -> tuple[ShardId, ...]:
        """Those whose failure is news: of several parts of a shard the first one counts."""
        with self._changing:
            return tuple(shard for shard in shards if shard not in self._plans or self._missing.pop(shard, 0))


def _whole(plan: ShardPlan, parts: Sequence[ShardCopy]) -> ShardCopy:
    """Its files in the order of the plan, wherever they were copied."""
    found = {file.path: file for part in parts for file in part.files}
    return replace(
        parts[0],
        files=tuple(found[file.path] for file in plan.files),
        bytes_new=sum(part.bytes_new for part in parts),
        objects_written=sum(part.objects_written for part in parts),
    )
