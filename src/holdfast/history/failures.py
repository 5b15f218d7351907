"""What failed, and keeps failing."""

from collections import Counter
from datetime import timedelta

import msgspec

from holdfast.coordination.failure_reasons import RULES, FailureReason
from holdfast.finding import Evidence, Finding
from holdfast.history.numbers import Numbers, as_setting, seconds
from holdfast.repository.documents import CheckpointDocument, JobView
from holdfast.repository.views import job_status

_FAILING = 2
_TOLERATED = 3
_LOOP = 3
_LATELY = timedelta(hours=1)
_LATE_INTERVALS = 3
_VERY_LATE_INTERVALS = 8
_SHORTEST_INTERVAL_S = 5.0


def failing(numbers: Numbers) -> Finding | None:
    """Counted failures since the last good checkpoint, by their most frequent reason."""
    count = job_status(numbers.seen).consecutive_failures
    if count < _FAILING:
        return None
    failed = _failed(numbers, count)
    if not failed:
        return None
    reason = Counter(item.failure.reason for item in failed if item.failure).most_common(1)[0][0]
    rule = next((RULES[known] for known in FailureReason if known.value == reason), None)
    longest = max(item.duration_ms or 0 for item in failed)
    return numbers.finding(
        "checkpoints-failing",
        "critical" if count > _TOLERATED else "warning",
        "checkpoints keep failing",
        rule.meaning if rule else reason,
        (*_settings(reason, longest), *((f"# {rule.hint}",) if rule else ())),
        ((item, f"checkpoint {item.id or '?'}: {_why(item)}") for item in failed),
        count=count,
    )


def _failed(numbers: Numbers, count: int) -> list[CheckpointDocument]:
    """The newest failure that the process reports, which may not be in the home; then those of the history."""
    known = [item for item in numbers.history if item.failure and item.failure.counted]
    last = job_status(numbers.seen).last_failure
    unrecorded = [last] if last is not None and last.id is None and last not in known else []
    return [*unrecorded, *known][:count]


def _settings(reason: str, longest_ms: float) -> tuple[str, ...]:
    if reason == FailureReason.EXPIRED.value:
        return (f'timeout="{as_setting(2 * longest_ms)}"', "parallelism=8")
    if reason == FailureReason.STORAGE_FULL.value:
        return ("retained=3",)
    if reason == FailureReason.STORAGE_THROTTLED.value:
        return ('interval="5m"', "parallelism=2")
    if reason == FailureReason.STORAGE_UNREACHABLE.value:
        return ('storage_deadline="2m"',)
    if reason == FailureReason.FILES_VANISHED.value:
        return ("spark.sql.streaming.minBatchesToRetain=200",)
    return ()


def _why(item: CheckpointDocument) -> str:
    return f"{item.failure.reason}: {item.failure.message}" if item.failure else ""


def no_recent_checkpoint(numbers: Numbers) -> Finding | None:
    """The pipeline runs, but the newest checkpoint is old compared with the interval, which is in the journal of newer
    runs."""
    status = job_status(numbers.seen)
    interval_s = status.interval_s or (numbers.interval_ms or 0.0) / 1000
    owner = status.owner
    if not status.running or not interval_s or owner is None or _holds_everything(numbers, status):
        return None
    last = status.last_completed
    since = max(last.completed_at, owner.started_at) if last and last.completed_at else owner.started_at
    age = (numbers.seen.now - since).total_seconds()
    late = age / max(interval_s, _SHORTEST_INTERVAL_S)
    if late < _LATE_INTERVALS:
        return None
    newest = f"the newest one is checkpoint {last.id}" if last else "there is none yet"
    return numbers.finding(
        "checkpoint-overdue",
        "critical" if late >= _VERY_LATE_INTERVALS else "warning",
        "the job runs, but no checkpoint has completed for a long time",
        f"no checkpoint for {late:.0f} intervals of {seconds(interval_s * 1000)}, which is {seconds(age * 1000)}; "
        f"{newest}: no batch commits, or no checkpoint completes",
        ("# holdfast checkpoints shows failures; the Spark UI shows whether batches still commit",),
        [(last, f"checkpoint {last.id} was the last to complete")] if last else (),
        count=round(late),
    )


def _holds_everything(numbers: Numbers, status: JobView) -> bool:
    """The process has just reported that no batch followed the newest checkpoint: the source has no new input."""
    liveness = numbers.seen.liveness
    report = liveness.report if liveness is not None and liveness.alive else None
    if report is None or report.batch is None or not status.last_completed:
        return False
    return (status.last_completed.barrier_batch_id or 0) >= report.batch


def damaged(numbers: Numbers) -> Finding | None:
    bad = [item for item in numbers.history if item.corrupt and item.status == "completed" and not item.abandoned]
    if not bad:
        return None
    usable = job_status(numbers.seen).last_usable
    newest = max(item.id or 0 for item in bad)
    left = "no checkpoint is usable" if usable is None else f"the newest usable one is {usable.id}"
    return numbers.finding(
        "checkpoint-damaged",
        "critical" if usable is None or (usable.id or 0) < newest else "warning",
        "checkpoints are damaged in the home",
        f"their bytes are wrong or missing; recovery passes over them; {left}",
        ("# holdfast verify --all --repair repairs what can be repaired, while the job does not run", 'scrub="7d"'),
        ((item, f"checkpoint {item.id}: {item.corrupt}") for item in bad),
    )


def restart_loop(numbers: Numbers) -> Finding | None:
    lately = [entry for entry in numbers.seen.state.restarts if numbers.seen.now - entry.at <= _LATELY]
    if len(lately) < _LOOP or not numbers.seen.running:
        return None
    causes = Counter(entry.cause for entry in lately).most_common(1)[0][0]
    finding = numbers.finding(
        "restart-loop",
        "critical",
        "the query keeps failing and being restarted",
        f"{len(lately)} restarts within an hour, most often because of {causes}: {lately[-1].message}",
        ('restart_delay="10s"', "# fix what the message names; the query resumes where it stopped"),
        (),
        count=len(lately),
    )
    place = f"{numbers.seen.home.rstrip('/')}/{numbers.seen.job}"
    rows = tuple(Evidence(source=place, line=0, text=f"{entry.cause}: {entry.message}") for entry in lately[-3:])
    return msgspec.structs.replace(finding, evidence=rows)
