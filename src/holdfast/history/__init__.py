"""Findings from a holdfast job's own history: what its numbers say before something fails, and why something did."""

from collections.abc import Callable

from holdfast.finding import RANK, Finding
from holdfast.history import failures, keeping, pace, shards, store
from holdfast.history.numbers import Numbers
from holdfast.repository.views import Observation

_RULES: tuple[Callable[[Numbers], Finding | None], ...] = (
    failures.restart_loop,
    failures.failing,
    failures.no_recent_checkpoint,
    failures.damaged,
    pace.near_interval,
    pace.growing,
    pace.little_headroom,
    store.slow_store,
    store.slow_upload,
    store.expensive,
    shards.uneven,
    keeping.short_memory,
)


def history_findings(seen: Observation) -> tuple[Finding, ...]:
    """The worst first."""
    numbers = Numbers(seen)
    found = [finding for rule in _RULES if (finding := rule(numbers)) is not None]
    return tuple(sorted(found, key=lambda finding: RANK[finding.severity]))
