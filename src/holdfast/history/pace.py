"""Whether checkpoints are fast enough for their interval and for Spark's deletion of old files."""

import dataclasses
import math
from collections.abc import Sequence
from statistics import median

from holdfast.coordination.headroom import Headroom
from holdfast.finding import Finding
from holdfast.history.numbers import ENOUGH, RECENT, Numbers, as_setting, ninth_decile, seconds
from holdfast.repository.documents import CheckpointDetail

_MUCH = 0.5
"""Share of the interval from which one slow checkpoint is enough to skip the next trigger."""
_NOTEWORTHY = 0.2
_GROWN = 2.0
_HISTORY = 15
_SPARK_KEEPS = 100
"""spark.sql.streaming.minBatchesToRetain, unless set."""
_BATCHES_A_STEP = 50


def near_interval(numbers: Numbers) -> Finding | None:
    interval, recent = numbers.interval_ms, numbers.recent
    if interval is None or len(recent) < ENOUGH:
        return None
    durations = [item.duration_ms or 0 for item in recent]
    typical = median(durations)
    if typical < _MUCH * interval:
        return None
    wanted = as_setting(2.5 * ninth_decile(durations))
    return numbers.finding(
        "checkpoints-near-interval",
        "warning",
        "checkpoints take a large part of the interval at which they are triggered",
        f"the last {len(recent)} took {seconds(typical)} each on median, {typical / interval:.0%} of the "
        f"{seconds(interval)} between two triggers",
        (f'interval="{wanted}"', *_help_copying(numbers)),
        ((item, f"checkpoint {item.id} took {seconds(item.duration_ms or 0)}") for item in recent),
    )


def growing(numbers: Numbers) -> Finding | None:
    """Not yet near the interval, but growing towards it."""
    completed, interval = numbers.completed, numbers.interval_ms
    if interval is None or len(completed) < _HISTORY:
        return None
    newest = median(item.duration_ms or 0 for item in completed[:ENOUGH])
    oldest = median(item.duration_ms or 0 for item in completed[-ENOUGH:])
    if newest >= _MUCH * interval or newest < _NOTEWORTHY * interval or newest < _GROWN * oldest:
        return None
    left = math.ceil((interval - newest) / ((newest - oldest) / (len(completed) - ENOUGH)))
    wanted = as_setting(max(interval, 2.5 * newest))
    return numbers.finding(
        "checkpoints-growing",
        "warning",
        "checkpoints take longer and longer",
        f"{seconds(oldest)} became {seconds(newest)} over {len(completed)} checkpoints; at this rate they fill "
        f"the interval of {seconds(interval)} after about {left} more",
        (
            f'interval="{wanted}"',
            *_help_copying(numbers),
            "# does the state grow without bound? check watermarks and TTLs",
        ),
        (
            (item, f"checkpoint {item.id} took {seconds(item.duration_ms or 0)}")
            for item in (completed[0], completed[-1])
        ),
        count=len(completed),
    )


def little_headroom(numbers: Numbers) -> Finding | None:
    """Spark deletes the files of older batches: by then they must be pinned or copied."""
    vanished = [item for item in numbers.history if item.failure and item.failure.reason == "files_vanished"]
    measured = [(item, found) for item in numbers.history if (found := _headroom(item)) is not None]
    if not measured:
        return _guessed_headroom(numbers, vanished)
    tight = [(item, found) for item, found in measured[:RECENT] if found.tight]
    newest = numbers.history.index(measured[0][0])
    newer = [item for item in vanished if item in numbers.history[:newest]]
    if not newer and (not tight or tight[0] != measured[0]):
        return None
    worst = max((found for _, found in tight), key=lambda found: found.needed_s, default=measured[0][1])
    if newer:
        worst = dataclasses.replace(worst, vanished=True)
    rows = [(item, f"checkpoint {item.id}: {item.failure.message}") for item in newer if item.failure]
    rows += [(item, f"checkpoint {item.id}: {found.cause}") for item, found in tight]
    wanted, *advice = worst.advice
    setting = worst.setting
    return numbers.finding(
        "little-headroom",
        "critical" if len(newer) >= ENOUGH else "warning",
        "Spark deletes old state almost as fast as it is copied",
        worst.cause,
        (setting or f"# {wanted}", *(f"# {line}" for line in advice)),
        rows,
        count=len(rows),
    )


def _headroom(item: CheckpointDetail) -> Headroom | None:
    """The headroom of a checkpoint, if it was measured."""
    if (kept := item.headroom) is None:
        return None
    return Headroom(kept.needed_ms / 1000, kept.lives_ms / 1000, kept.batches_retained, kept.pinned)


def _guessed_headroom(numbers: Numbers, vanished: Sequence[CheckpointDetail]) -> Finding | None:
    """For histories without measured headroom."""
    batch, recent = numbers.batch_ms, numbers.recent
    passing = max((item.duration_ms or 0 for item in recent), default=0) / batch if batch else 0.0
    if not vanished and passing < _MUCH * _SPARK_KEEPS:
        return None
    needed = max(2 * _SPARK_KEEPS, math.ceil(4 * passing / _BATCHES_A_STEP) * _BATCHES_A_STEP)
    rows = [(item, f"checkpoint {item.id}: {item.failure.message}") for item in vanished if item.failure]
    rows += [(item, f"checkpoint {item.id} took {seconds(item.duration_ms or 0)}") for item in recent]
    return numbers.finding(
        "little-headroom",
        "critical" if len(vanished) >= ENOUGH else "warning",
        "Spark deletes old state almost as fast as it is copied",
        f"about {passing:.0f} batches pass while a checkpoint is copied, and Spark keeps {_SPARK_KEEPS} by default",
        (f"spark.sql.streaming.minBatchesToRetain={needed}", "parallelism=8"),
        rows,
        count=len(vanished) or len(recent),
    )


def _help_copying(numbers: Numbers) -> tuple[str, ...]:
    """More threads help when copying takes most of the time."""
    copying, all_of_it = numbers.phase_ms("copying", "copy"), [item.duration_ms or 0 for item in numbers.recent]
    return ("parallelism=8",) if copying and median(copying) > _MUCH * median(all_of_it) else ()
