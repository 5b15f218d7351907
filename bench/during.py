"""Batch times while a checkpoint is under way, against batch times without, in one life: `python -m bench.during`.

Blocks of batches take turns: in one kind no checkpoint is taken, in the other the next one is asked for as soon as the
one before is complete and a batch was committed since. So each of these batches shares the machine with a checkpoint.
Which kind comes first changes from pair to pair: a JVM gets quicker for minutes, and that favours who comes second.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from bench import processor
from bench.pipeline import JOB, SPARK, Load, aggregation, session, wait_for
from bench.ratio import Ratio, quantile
from bench.rounds import DISTURBED

EXPECTED_P99 = 1.15
_LOOK_S = 0.02


class During(msgspec.Struct, frozen=True):
    without: tuple[float, ...]
    """Seconds from the start of a batch to the start of the next one."""
    during: tuple[float, ...]
    checkpoints: int
    share: float
    """Of the time of the second kind of blocks, in which a checkpoint was under way."""
    others: float


def measure(load: Load, blocks: int, place: Path) -> During:
    """In a process of its own, because of Spark."""
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "bench.during", str(place), str(blocks), msgspec.json.encode(load).decode()]
    with (place / "log.txt").open("wb") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=False)
    if done.returncode != 0:
        tail = (place / "log.txt").read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"the pipeline ended with exit code {done.returncode}:", *tail]))
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=During)


def ratios(measured: During) -> Iterator[Ratio]:
    disturbed = measured.others > DISTURBED
    for name, share, expected in (("median", 0.5, None), ("p99", 0.99, EXPECTED_P99)):
        value = quantile(measured.during, share) / quantile(measured.without, share)
        yield Ratio(f"{name} batch time in checkpoints: without", value, False, expected, disturbed)


class _Pipeline:
    def __init__(self, load: Load, place: Path) -> None:
        import holdfast
        from holdfast.sinks import Files

        spark = session(SPARK)
        (place / "home").mkdir()
        self.load = load
        self.running = holdfast.start(
            lambda spark: aggregation(spark, load),
            job=JOB,
            home=f"file://{place / 'home'}",
            sink=Files(place / "output"),
            interval="1h",
            work=place / "work",
            spark=spark,
        )
        self.newest = load.warm_up
        wait_for(self.newest, lambda: self.running.query)
        self.busy_s = 0.0

    def block(self, checkpointing: bool) -> range:
        """The batches that began and ended in it."""
        first, last = self._committed() + 2, self._committed() + 2 + self.load.batches
        while self._committed() <= last:
            if checkpointing and self._has_news():
                begun = time.monotonic()
                self.running.checkpoint(timeout="60s")
                self.busy_s += time.monotonic() - begun
            time.sleep(_LOOK_S)
        return range(first, last)

    def _has_news(self) -> bool:
        status = self.running.status()
        last = status.recent[-1].barrier if status.recent else None
        return status.barrier is not None and (last is None or status.barrier > last)

    def _committed(self) -> int:
        barrier = self.running.status().barrier
        assert barrier is not None
        return int(barrier)

    def seconds_of(self, batches: Sequence[int]) -> Iterator[float]:
        query = self.running.query
        assert query is not None
        starts = {entry["batchId"]: datetime.fromisoformat(entry["timestamp"]) for entry in query.recentProgress}
        return ((starts[n + 1] - starts[n]).total_seconds() for n in batches)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("blocks", type=int)
    parser.add_argument("load", help="JSON")
    arguments = parser.parse_args()
    pipeline = _Pipeline(msgspec.json.decode(arguments.load, type=Load), arguments.place)
    batches: dict[bool, list[int]] = {True: [], False: []}
    begun = processor.now()
    for number in range(2 * arguments.blocks):
        checkpointing = number % 4 in (1, 2)
        batches[checkpointing].extend(pipeline.block(checkpointing))
    others = processor.others_between(begun, processor.now())
    wait_for(max(*batches[True], *batches[False]) + 1, lambda: pipeline.running.query)
    without, during = (tuple(pipeline.seconds_of(batches[kind])) for kind in (False, True))
    completed = pipeline.running.status().statistics.completed
    pipeline.running.stop(timeout="60s")
    result = During(without, during, completed, pipeline.busy_s / sum(during), others)
    sys.stdout.write(f"\n{msgspec.json.encode(result).decode()}\n")


if __name__ == "__main__":
    main()
