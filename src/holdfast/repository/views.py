"""The state and history of a job as the documents of `documents.py`. Pure: from a state, a heartbeat and a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from holdfast.identifiers import CheckpointId
from holdfast.repository.documents import (
    CheckpointDetail,
    CheckpointDocument,
    CheckpointList,
    CheckpointStatus,
    JobView,
    Owner,
    PlansLateDocument,
    RestartDocument,
    RunState,
    SavepointList,
)
from holdfast.repository.entries import (
    CheckpointCompleted,
    CheckpointFailedEntry,
    CheckpointStarted,
    Failure,
    PlansLate,
    QueryRestarted,
    RunStarted,
)
from holdfast.repository.last_verified import LastVerified
from holdfast.repository.liveness import Liveness
from holdfast.repository.ownership import Heartbeat
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState

RUN_ENDED = Failure(
    reason="run_ended",
    message="the run died before the checkpoint completed",
    counted=False,
    hint="nothing: the next run continues from the newest completed checkpoint",
)


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A job as observed at one moment. `alive`: whether the newest run, if it has not ended, seems alive."""

    job: str
    home: str
    state: JobState
    heartbeat: Heartbeat | None
    alive: bool
    now: datetime
    damaged: Mapping[CheckpointId, str] = field(default_factory=dict)
    """Damage that a check of the home has found and the journal does not record."""
    verified: LastVerified = field(default_factory=dict)
    liveness: Liveness | None = None
    """The report of the newest run of the pipeline, if it has not recorded its end."""

    @property
    def report(self) -> SelfReport | None:
        return self.liveness.report if self.liveness else None

    @cached_property
    def history(self) -> tuple[CheckpointDetail, ...]:
        return _history(self)

    @property
    def running(self) -> bool:
        """Whether the pipeline runs."""
        return self._owned_for("pipeline")

    @property
    def maintained(self) -> bool:
        """Whether a command is writing to the job while the pipeline does not run."""
        return self._owned_for("maintenance")

    def _owned_for(self, purpose: str) -> bool:
        run = self.state.run
        return run is not None and run.purpose == purpose and self.state.ended is None and self.alive


def job_status(seen: Observation) -> JobView:
    state, completed = seen.state, _newest_completed(seen.state)
    failures = _failures_since(completed, state)
    usable = next((entry for entry in state.restorable() if entry.id not in seen.damaged), None)
    epoch = state.pipeline.fencing_epoch if state.pipeline else None
    restart = next((entry for entry in reversed(state.restarts) if entry.fencing_epoch == epoch), None)
    return JobView(
        job=seen.job,
        home=seen.home,
        state=_run_state(seen),
        running=seen.running,
        owner=_owner(state.pipeline, seen),
        last_completed=_brief(_of_completed(completed, seen)) if completed else None,
        last_usable=_brief(_of_completed(usable, seen)) if usable else None,
        interval_s=(state.pipeline.interval_s or None) if state.pipeline else None,
        seconds_since_last_completed=_age(completed.at, seen.now) if completed else None,
        consecutive_failures=max(len(failures), seen.report.consecutive_failures if seen.report else 0),
        last_failure=_last_failure(failures, seen),
        alarms=seen.report.alarms if seen.report else (),
        ended_at=_utc(state.pipeline_ended.at) if state.pipeline_ended else None,
        ended_reason=state.pipeline_ended.reason if state.pipeline_ended else None,
        restarts=restart.attempt_number if restart else 0,
        plans_late=_of_late_plans(state.plans_late),
        kafka_lag=seen.report.kafka_lag if seen.report and seen.running else None,
        kafka_reading=seen.report.kafka_reading if seen.report and seen.running else None,
        kafka_skipped=seen.report.kafka_skipped if seen.report else (),
        recovery=seen.report.recovery if seen.report and state.pipeline_ended is None else None,
        last_restart=_of_restart(restart) if restart else None,
        rollback=state.rollback.chosen if state.rollback else None,
        maintenance=_owner(state.run, seen) if seen.maintained else None,
        protects=(state.pipeline.protects or None) if state.pipeline else None,
    )


def checkpoints(seen: Observation) -> tuple[CheckpointDetail, ...]:
    """The whole history that the journal still holds, newest first in the order of the journal, since clocks may be
    changed."""
    return seen.history


def _history(seen: Observation) -> tuple[CheckpointDetail, ...]:
    """One document per id: a completed entry wins over a failed one, and either over the start."""
    state = seen.state
    nameless = [entry for entry in state.failed if entry.id is None]
    failed = {entry.id: entry for entry in state.failed if entry.id is not None and entry.id not in state.completed}
    begun = [entry for id, entry in state.started.items() if id not in state.completed and id not in failed]
    placed = [(_place(entry, state), _of_completed(entry, seen)) for entry in state.completed.values()]
    placed += [(_place(entry, state), _of_failed(entry)) for entry in (*nameless, *failed.values())]
    placed += [(_place(entry, state), _of_started(entry, seen)) for entry in begun]
    return tuple(document for _, document in sorted(placed, key=lambda item: item[0], reverse=True))


def _place(entry: CheckpointCompleted | CheckpointFailedEntry | CheckpointStarted, state: JobState) -> tuple[int, int]:
    """The place of its start in the journal, or of the first entry about it that is left."""
    if entry.id is not None and entry.id in state.started:
        return (state.started[entry.id].sequence, entry.sequence)
    return (_failed_after(entry) if isinstance(entry, CheckpointFailedEntry) else entry.sequence, entry.sequence)


def checkpoint_list(seen: Observation, limit: int | None = None) -> CheckpointList:
    listed = tuple(_brief(document) for document in checkpoints(seen)[:limit])
    restarts = tuple(_of_restart(entry) for entry in reversed(seen.state.restarts))
    return CheckpointList(job=seen.job, home=seen.home, checkpoints=listed, restarts=restarts[:limit])


def checkpoint_detail(seen: Observation, id: int) -> CheckpointDetail | None:
    return next((document for document in checkpoints(seen) if document.id == id), None)


def history_rows(seen: Observation) -> list[dict[str, Any]]:
    """The checkpoints, newest first, as rows of plain values for a table."""
    return [row_of(document) for document in checkpoints(seen)]


def row_of(document: CheckpointDetail) -> dict[str, Any]:
    """One checkpoint as plain values."""
    failure = document.failure
    return {
        "id": document.id,
        "status": document.status,
        "kind": document.kind,
        "name": document.name,
        "batch": document.barrier_batch_id,
        "triggered_at": document.triggered_at,
        "completed_at": document.completed_at,
        "duration_ms": document.duration_ms,
        "bytes_total": document.bytes_total,
        "bytes_new": document.bytes_new,
        "files": document.files,
        "shards": document.shards,
        "run": document.fencing_epoch,
        "usable": document.usable,
        "failure": failure.reason if failure else None,
        "message": failure.message if failure else None,
    }


def savepoint_list(seen: Observation) -> SavepointList:
    """The savepoints that can be restored, newest first."""
    listed = (document for document in checkpoints(seen) if document.kind == "savepoint")
    kept = tuple(_brief(document) for document in listed if document.status == "completed")
    return SavepointList(job=seen.job, home=seen.home, savepoints=kept)


def _run_state(seen: Observation) -> RunState:
    if seen.state.pipeline is None:
        return "never_run"
    if seen.state.pipeline_ended is not None:
        return "ended"
    return "running" if seen.running else "lost"


def _owner(run: RunStarted | None, seen: Observation) -> Owner | None:
    if run is None:
        return None
    beat = _heartbeat_of(run, seen.heartbeat)
    return Owner(
        host=run.host,
        pid=run.pid,
        identity=run.process.identity or None,
        application_id=beat.application_id if beat else None,
        fencing_epoch=run.fencing_epoch,
        started_at=_utc(run.at),
        heartbeat_at=_utc(beat.heartbeat_at) if beat else None,
    )


def _heartbeat_of(run: RunStarted, heartbeat: Heartbeat | None) -> Heartbeat | None:
    return heartbeat if heartbeat and heartbeat.fencing_epoch == run.fencing_epoch else None


def _newest_completed(state: JobState) -> CheckpointCompleted | None:
    return max((e for e in state.completed.values() if e.id not in state.abandoned), key=lambda e: e.id, default=None)


def _failures_since(completed: CheckpointCompleted | None, state: JobState) -> list[CheckpointFailedEntry]:
    """Counted failures after the last completion. A failure is written when the home can be written again, so the place
    that it records counts, not its own place in the journal."""
    failures = [entry for entry in state.failed if entry.failure.counted and entry.id not in state.completed]
    if completed is None:
        return failures
    return [failure for failure in failures if _failed_after(failure) >= completed.sequence]


def _order_of_failure(entry: CheckpointFailedEntry) -> tuple[int, int]:
    return (_failed_after(entry), entry.sequence)


def _failed_after(entry: CheckpointFailedEntry) -> int:
    """The newest journal entry when it failed."""
    return entry.sequence - 1 if entry.head is None else entry.head


def _of_completed(entry: CheckpointCompleted, seen: Observation) -> CheckpointDetail:
    state = seen.state
    damage = _damage(entry, seen)
    because = _unusable(entry, state, damage)
    source = next((each for each in seen.report.restorable if each.id == entry.id), None) if seen.report else None
    return CheckpointDetail(
        id=entry.id,
        status="retired" if entry.id in state.retired else "completed",
        kind=entry.checkpoint_kind,
        name=entry.name,
        barrier_batch_id=entry.barrier_batch_id,
        fencing_epoch=entry.fencing_epoch,
        triggered_at=_utc(entry.triggered_at),
        completed_at=_utc(entry.at),
        duration_ms=entry.duration_ms,
        bytes_total=entry.bytes_total,
        bytes_new=entry.bytes_new,
        bytes_reused=max(0, entry.bytes_total - entry.bytes_new),
        files=entry.files,
        objects_written=entry.objects_written,
        requests=entry.requests,
        shards=entry.shards,
        shards_acknowledged=entry.shards,
        corrupt=damage,
        abandoned=entry.id in state.abandoned,
        usable=because is None,
        unusable_because=because,
        source_until=source.until if source else None,
        source_gone=source.gone if source else False,
        manifest=entry.manifest,
        verified_at=seen.verified.get(entry.manifest),
        phases=entry.phases,
        slowest_shards=entry.slowest,
        headroom=entry.headroom,
        batches=entry.batches,
        skipped=entry.skipped,
    )


def _damage(entry: CheckpointCompleted, seen: Observation) -> str | None:
    mark = seen.state.corrupt.get(entry.id)
    return mark.detail if mark else seen.damaged.get(entry.id)


def _unusable(entry: CheckpointCompleted, state: JobState, damage: str | None) -> str | None:
    if entry.id in state.retired:
        return "retired: its objects may be gone"
    if entry.id in state.passed_over:
        return f"abandoned: it was damaged, and the job went on from an older one ({damage})"
    if entry.id in state.abandoned:
        return "abandoned: the job went back to an older one, and on from there"
    return f"damaged: {damage}" if damage else None


def _last_failure(failures: list[CheckpointFailedEntry], seen: Observation) -> CheckpointDocument | None:
    """The report of the process takes precedence if it counts more failures than the journal."""
    report = seen.report
    if report is None or report.last_failure is None or report.consecutive_failures <= len(failures):
        return _brief(_of_failed(max(failures, key=_order_of_failure))) if failures else None
    return CheckpointDocument(
        id=None,
        status="failed",
        kind="checkpoint",
        name=None,
        barrier_batch_id=report.batch,
        fencing_epoch=seen.state.pipeline.fencing_epoch if seen.state.pipeline else seen.state.fencing_epoch,
        triggered_at=_utc(report.failed_at or seen.now),
        failure=report.last_failure,
        unusable_because=_because_failed(report.last_failure),
    )


def _because_failed(failure: Failure) -> str:
    return f"failed: {failure.reason}"


def _of_failed(entry: CheckpointFailedEntry) -> CheckpointDetail:
    return CheckpointDetail(
        id=entry.id,
        status="failed",
        kind=entry.checkpoint_kind,
        name=entry.name,
        barrier_batch_id=entry.barrier_batch_id,
        fencing_epoch=entry.fencing_epoch,
        triggered_at=_utc(entry.triggered_at),
        duration_ms=entry.duration_ms,
        bytes_new=entry.bytes_new,
        shards=entry.shards,
        shards_acknowledged=entry.shards_acknowledged,
        failure=entry.failure,
        unusable_because=_because_failed(entry.failure),
        phases=entry.phases,
        slowest_shards=entry.slowest,
    )


def _of_started(entry: CheckpointStarted, seen: Observation) -> CheckpointDetail:
    """A checkpoint of which the journal has only the start."""
    status: CheckpointStatus = "failed"
    if entry.id in seen.state.retired:
        status = "retired"
    elif seen.running and entry.fencing_epoch == seen.state.fencing_epoch:
        status = "in_progress"
    return CheckpointDetail(
        id=entry.id,
        status=status,
        kind=entry.checkpoint_kind,
        name=entry.name,
        barrier_batch_id=entry.barrier_batch_id,
        fencing_epoch=entry.fencing_epoch,
        triggered_at=_utc(entry.at),
        failure=RUN_ENDED if status == "failed" else None,
        unusable_because=_because_failed(RUN_ENDED) if status == "failed" else "it was never completed",
    )


def _of_late_plans(entry: PlansLate | None) -> PlansLateDocument | None:
    if entry is None:
        return None
    since = None if entry.since is None else _utc(entry.since)
    return PlansLateDocument(first_batch=entry.first, last_batch=entry.last, since=since, until=_utc(entry.at))


def _of_restart(entry: QueryRestarted) -> RestartDocument:
    return RestartDocument(
        number=entry.attempt_number,
        fencing_epoch=entry.fencing_epoch,
        at=_utc(entry.at),
        cause=entry.cause,
        message=entry.message,
        hint=entry.hint,
        duration_ms=entry.duration_ms,
    )


def _brief(document: CheckpointDocument) -> CheckpointDocument:
    return CheckpointDocument(**{name: getattr(document, name) for name in CheckpointDocument.__struct_fields__})


def _age(then: datetime, now: datetime) -> float:
    return max(0.0, round((now - then).total_seconds(), 3))


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
