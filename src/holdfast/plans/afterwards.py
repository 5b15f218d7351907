"""Makes the plans of batches that ran before, from the files that a checkpoint directory still has.

The offsets of a batch say up to which entry it reads the log of a file source; those of the batch before it say where
it began. What other sources put beside the offsets, they put there with batch 0.
"""

from collections.abc import Callable, Iterator

from holdfast.checkpoint.source_logs import file_sources
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.plans.plan import Plan
from holdfast.plans.spark_logs import Directory, entry_number, of_entry


def batches_in(directory: Directory, after: BatchId | None, upto: BatchId) -> tuple[BatchId, ...]:
    """The batches in this range whose offsets the directory has, in ascending order."""
    numbers = sorted(int(name) for name in directory.names("offsets") if name.isascii() and name.isdigit())
    first = 0 if after is None else after + 1
    return tuple(BatchId(number) for number in numbers if first <= number <= upto)


def plans_of(
    directory: Directory, batches: tuple[BatchId, ...], epoch: FencingEpoch, new_attempt: Callable[[], AttemptId]
) -> Iterator[Plan]:
    """Without those that the directory no longer tells all of."""
    there = frozenset(directory.names("offsets"))
    metadata = directory.read("metadata").decode()
    for batch in batches:
        offsets = directory.read(f"offsets/{batch}")
        before = directory.read(f"offsets/{batch - 1}") if str(batch - 1) in there else None
        sources = _added(directory, batch, before, offsets)
        if sources is not None:
            yield Plan(
                batch_id=batch,
                fencing_epoch=epoch,
                attempt=new_attempt(),
                metadata=metadata,
                offsets=offsets.decode(),
                sources=sources,
            )


def _added(directory: Directory, batch: BatchId, before: bytes | None, offsets: bytes) -> dict[str, str] | None:
    """What is new below `sources/` with the batch; None when that cannot be told any more."""
    logs = dict(file_sources(offsets))
    if batch > 0 and before is None and logs:
        return None
    found = _beside_the_offsets(directory, frozenset(logs)) if batch == 0 else {}
    began = dict(file_sources(before or b""))
    for source, reached in logs.items():
        for number in range(began.get(source, -1) + 1, reached + 1):
            entry = _entry(directory, source, number)
            if entry is None:
                return None
            found |= entry
    return found


def _beside_the_offsets(directory: Directory, logs: frozenset[str]) -> dict[str, str]:
    paths = [
        f"{source}/{name}"
        for source in directory.names("sources")
        if source not in logs
        for name in directory.names(f"sources/{source}")
        if entry_number(name) is not None
    ]
    return {path: directory.read(f"sources/{path}").decode() for path in paths}


def _entry(directory: Directory, source: str, number: int) -> dict[str, str] | None:
    """By the path that it had. Spark deletes an entry some time after it has put it into a compacted one."""
    names = directory.names(f"sources/{source}")
    plain, compacted = str(number), f"{number}.compact"
    if plain in names:
        return {f"{source}/{plain}": directory.read(f"sources/{source}/{plain}").decode()}
    holding = [(entry_number(name), name) for name in names if name.endswith(".compact")]
    later = sorted((found, name) for found, name in holding if found is not None and found >= number)
    if not later:
        return None
    held, name = later[0]
    text = of_entry(directory.read(f"sources/{source}/{name}").decode(), number)
    return {f"{source}/{compacted if held == number else plain}": text}
