"""Whether one shard is much slower than the others."""

from collections import Counter

from holdfast.finding import Finding
from holdfast.history.numbers import ENOUGH, Numbers, seconds
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.entries import ShardSummary

_UNEVEN = 3.0
_NOTICED_MS = 1_000
_CONTROL = "control"


def uneven(numbers: Numbers) -> Finding | None:
    """The same shard, several times slower than the next one, in most of the recent checkpoints."""
    slow = [
        (item, shard, next_one) for item in numbers.recent if (found := _outlier(item)) for shard, next_one in [found]
    ]
    names = Counter(shard.id for _, shard, _ in slow)
    if not names or names.most_common(1)[0][1] < ENOUGH:
        return None
    name = names.most_common(1)[0][0]
    rows = [(item, shard, next_one) for item, shard, next_one in slow if shard.id == name]
    _, shard, next_one = rows[0]
    skewed = shard.bytes_total >= _UNEVEN * max(1, next_one.bytes_total)
    return numbers.finding(
        "shard-skewed" if skewed else "shard-slow",
        "warning",
        "one shard takes much longer than the others",
        f"{name} took {seconds(shard.ms)}, the next one {seconds(next_one.ms)}"
        + (
            f"; it holds {shard.bytes_total} bytes, the next one {next_one.bytes_total}: its keys are skewed"
            if skewed
            else ""
        ),
        (
            (
                "# salt the skewed key, or aggregate it in two steps",
                "spark.sql.shuffle.partitions=<twice as many, in a new job>",
            )
            if skewed
            else (
                "# the disk of the work directory on that partition's executor is slower than the others",
                "parallelism=8",
            )
        ),
        ((item, f"checkpoint {item.id}: {each.id} took {seconds(each.ms)}") for item, each, _ in rows),
    )


def _outlier(item: CheckpointDetail) -> tuple[ShardSummary, ShardSummary] | None:
    state = [shard for shard in item.slowest_shards if shard.id != _CONTROL]
    if len(state) < 2:
        return None
    first, second = state[0], state[1]
    return (first, second) if first.ms >= _NOTICED_MS and first.ms >= _UNEVEN * max(1, second.ms) else None
