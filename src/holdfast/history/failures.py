"""What failed, and goes on failing."""

from collections import Counter
from datetime import timedelta

import msgspec

from holdfast.coordination.reasons import RULES, FailureReason
from holdfast.finding import Evidence, Finding
from holdfast.history.numbers import Numbers, as_setting, seconds
from holdfast.repository.views import CheckpointDetail, job_status

_FAILING = 2
_TOLERATED = 3
_LOOP = 3
_LATELY = timedelta(hours=1)
_LATE_INTERVALS = 3
_VERY_LATE_INTERVALS = 10


def failing(numbers: Numbers) -> Finding | None:
    """Counted failures since the last good checkpoint, by their most frequent reason."""
    count = job_status(numbers.seen).consecutive_failures
    if count < _FAILING:
        return None
    failed = [item for item in numbers.history if item.failure and item.failure.counted][:count]
    if not failed:
        return None
    reason = Counter(item.failure.reason for item in failed if item.failure).most_common(1)[0][0]
    rule = next((RULES[known] for known in FailureReason if known.value == reason), None)
    longest = max(item.duration_ms or 0 for item in failed)
    return numbers.finding(
        "checkpoints-failing",
        "critical" if count > _TOLERATED else "warning",
        "checkpoints fail one after the other",
        rule.meaning if rule else reason,
        (*_settings(reason, longest), *((f"# {rule.hint}",) if rule else ())),
        ((item, f"checkpoint {item.id or '?'}: {_why(item)}") for item in failed),
    )


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


def _why(item: CheckpointDetail) -> str:
    return f"{item.failure.reason}: {item.failure.message}" if item.failure else ""


def no_recent_checkpoint(numbers: Numbers) -> Finding | None:
    """The pipeline runs, and yet the newest checkpoint grows old."""
    interval, status = numbers.interval_ms, job_status(numbers.seen)
    age = status.seconds_since_last_completed
    if interval is None or age is None or not status.running or age * 1000 < _LATE_INTERVALS * max(interval, 5_000):
        return None
    newest = numbers.completed[0]
    return numbers.finding(
        "checkpoint-overdue",
        "critical" if age * 1000 >= _VERY_LATE_INTERVALS * max(interval, 5_000) else "warning",
        "the job runs, and no checkpoint has completed for a long time",
        f"the newest one is {seconds(age * 1000)} old, where there was one every {seconds(interval)}: no batch "
        f"commits, or no "
        "checkpoint gets through",
        ("# holdfast checkpoints shows failures; the Spark UI shows whether batches still commit",),
        [(newest, f"checkpoint {newest.id} was the last to complete")],
    )


def damaged(numbers: Numbers) -> Finding | None:
    bad = [item for item in numbers.history if item.corrupt and item.status == "completed" and not item.abandoned]
    if not bad:
        return None
    newest_good = next((item for item in numbers.history if item.status == "completed" and not item.corrupt), None)
    return numbers.finding(
        "checkpoint-damaged",
        "critical" if newest_good is None or (newest_good.id or 0) < max(item.id or 0 for item in bad) else "warning",
        "checkpoints are damaged in the home",
        "their bytes are not what was written; recovery passes over them",
        ("# holdfast verify --all --repair puts back what can be repaired, while the job does not run", 'scrub="7d"'),
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
        "the query dies and is restarted again and again",
        f"{len(lately)} restarts within an hour, most often because of {causes}: {lately[-1].message}",
        ('restart_delay="10s"', "# repair what the message says; the query goes on where it stopped"),
        (),
        count=len(lately),
    )
    place = f"{numbers.seen.home.rstrip('/')}/{numbers.seen.job}"
    rows = tuple(Evidence(source=place, line=0, text=f"{entry.cause}: {entry.message}") for entry in lately[-3:])
    return msgspec.structs.replace(finding, evidence=rows)
