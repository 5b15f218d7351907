"""The numbers of a job's history that findings are based on. Newest first, as everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from statistics import median

from holdfast.finding import Evidence, Finding, Fixes, Severity
from holdfast.repository.documents import CheckpointDetail, CheckpointDocument
from holdfast.repository.views import Observation, checkpoints

RECENT = 10
ENOUGH = 5
_EVIDENCE = 3
_MINUTE_MS = 60_000


class Numbers:
    def __init__(self, seen: Observation) -> None:
        self.seen = seen

    @cached_property
    def history(self) -> tuple[CheckpointDetail, ...]:
        return checkpoints(self.seen)

    @cached_property
    def completed(self) -> tuple[CheckpointDetail, ...]:
        """Those of the pipeline itself: a savepoint is taken on request, and may be unlike the others."""
        return tuple(
            item
            for item in self.history
            if item.completed_at is not None and item.kind == "checkpoint" and item.duration_ms is not None
        )

    @cached_property
    def recent(self) -> tuple[CheckpointDetail, ...]:
        return self.completed[:RECENT]

    @cached_property
    def interval_ms(self) -> float | None:
        """The time between two triggers of one run: older journals do not hold the setting."""
        gaps = [
            (newer.triggered_at - older.triggered_at).total_seconds() * 1000
            for newer, older in pairwise(self.recent)
            if newer.fencing_epoch == older.fencing_epoch
        ]
        return median(gaps) if len(gaps) >= ENOUGH - 1 else None

    @cached_property
    def batch_ms(self) -> float | None:
        """How long a Spark batch takes, from the number of batches between two barriers."""
        found = []
        for newer, older in pairwise(self.recent):
            batches = (newer.barrier_batch_id or 0) - (older.barrier_batch_id or 0)
            if newer.fencing_epoch == older.fencing_epoch and batches > 0:
                found.append((newer.triggered_at - older.triggered_at).total_seconds() * 1000 / batches)
        return median(found) if len(found) >= ENOUGH - 1 else None

    def phase_ms(self, *names: str) -> list[int]:
        """For each recent checkpoint, how long the phases of these names took together."""
        return [
            sum(phase.ms for phase in item.phases if phase.name in names)
            for item in self.recent
            if any(phase.name in names for phase in item.phases)
        ]

    def finding(
        self,
        code: str,
        severity: Severity,
        symptom: str,
        cause: str,
        fix: Sequence[str],
        shown: Iterable[tuple[CheckpointDocument, str]],
        count: int | None = None,
    ) -> Finding:
        """`shown`: the checkpoints that are evidence, newest first, each with its text."""
        rows = list(shown)
        moments = [item.completed_at or item.triggered_at for item, _ in rows]
        return Finding(
            code=code,
            severity=severity,
            symptom=symptom,
            cause=cause,
            evidence=tuple(self._evidence(item, text) for item, text in rows[:_EVIDENCE]),
            fix=tuple(fix),
            count=len(rows) if count is None else count,
            first_seen=_when(min(moments, default=None)),
            last_seen=_when(max(moments, default=None)),
            job=self.seen.job,
            engine="holdfast",
            fixes=Fixes(flink=(), spark=(), holdfast=tuple(fix)),
        )

    def moment(self, at: datetime | None) -> str | None:
        return _when(at)

    def _evidence(self, item: CheckpointDocument, text: str) -> Evidence:
        """A journal has no lines, so the line number is the checkpoint's id."""
        return Evidence(source=f"{self.seen.home.rstrip('/')}/{self.seen.job}", line=item.id or 0, text=text)


def ninth_decile(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * 0.9) - 1)]


def as_setting(milliseconds: float) -> str:
    """A round duration that is at least this long, as the value of a setting."""
    if milliseconds < _MINUTE_MS:
        return f"{max(1, math.ceil(milliseconds / 5_000) * 5)}s"
    return f"{math.ceil(milliseconds / _MINUTE_MS)}m"


def seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000:.1f}s" if milliseconds < _MINUTE_MS else f"{milliseconds / _MINUTE_MS:.1f}min"


def _when(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
