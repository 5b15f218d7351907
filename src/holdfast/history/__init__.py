"""Findings from a holdfast job's own history: problems before something fails, and why something failed.

Pure: imports `repository` for what a journal says. Never reads a home or a clock.
"""

from collections.abc import Callable, Iterable

import msgspec

from holdfast.finding import RANK, Consequence, Finding
from holdfast.history import failures, keeping, pace, presence, reading, shards, store
from holdfast.history.numbers import Numbers
from holdfast.repository.documents import Health
from holdfast.repository.views import Observation

_RULES: tuple[Callable[[Numbers], Finding | None], ...] = (
    presence.owner_gone,
    presence.run_failed,
    presence.unmoved,
    presence.home_silent,
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
    reading.idle_cores,
    reading.hot_partition,
    reading.idle_partitions,
    reading.limited_batches,
    reading.unlimited_batches,
)

_FOLLOWS_FROM = {
    "checkpoint-overdue": ("process-silent", "restart-loop", "checkpoints-failing"),
    "home-not-written": ("checkpoints-failing",),
}
"""As for logs: the first cause is the finding, its consequences are attached to it."""


def health(findings: Iterable[Finding]) -> Health:
    """The severity of the worst finding."""
    severities = {finding.severity for finding in findings}
    return "critical" if "critical" in severities else "warning" if "warning" in severities else "well"


def history_findings(seen: Observation) -> tuple[Finding, ...]:
    """The worst first."""
    numbers = Numbers(seen)
    found = [finding for rule in _RULES if (finding := rule(numbers)) is not None]
    found += presence.alarms(numbers, [finding.code for finding in found])
    return tuple(sorted(_linked(found), key=lambda finding: RANK[finding.severity]))


def _linked(found: Iterable[Finding]) -> list[Finding]:
    standing = {finding.code: finding for finding in found}
    for code, causes in _FOLLOWS_FROM.items():
        cause = next((standing[each] for each in causes if each in standing), None)
        if cause is not None and (effect := standing.pop(code, None)) is not None:
            standing[cause.code] = _with(cause, effect)
    return list(standing.values())


def _with(cause: Finding, effect: Finding) -> Finding:
    """With the severity of the worse of the two."""
    consequence = Consequence(
        code=effect.code,
        symptom=effect.symptom,
        count=effect.count,
        first_seen=effect.first_seen,
        last_seen=effect.last_seen,
        evidence=effect.evidence,
    )
    return msgspec.structs.replace(
        cause,
        severity=min(cause.severity, effect.severity, key=RANK.__getitem__),
        consequences=(*cause.consequences, consequence),
    )
