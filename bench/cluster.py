"""Batch times while checkpoints are being made, against those without, on a standalone cluster.

A master, and two workers of two cores each, as processes on this machine. One application runs two queries: the
measured job under holdfast, and a neighbour that holdfast does not know. Lives alternate in one driver:

    quiet       no checkpoint is made during the measurement
    executors   a new checkpoint begins as soon as the last one is complete, and executors copy everything
    auto        the same with holdfast's own choice of who copies

`python -m bench.cluster` is the driver.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench import processor
from bench.pipeline import JOB, SPARK, Load, aggregation, session, wait_for
from bench.ratio import Ratio, quantile
from tests.cluster.standalone import standalone_cluster

Variant = Literal["quiet", "executors", "auto"]
VARIANTS: tuple[Variant, ...] = ("quiet", "executors", "auto")
OPTIONS: dict[Variant, dict[str, str]] = {
    "quiet": {"interval": "1h"},
    "executors": {"interval": "100ms", "carrier": "executors"},
    "auto": {"interval": "100ms"},
}

FULL = Load(keys=5_000, windows=20, warm_up=10, batches=40)
QUICK = Load(keys=1_000, windows=10, warm_up=5, batches=15)

EXPECTED_P99 = 1.15
DISTURBED = 0.2
_WORKERS, _CORES = 2, 2
_WARM_UP_LIVES: tuple[Variant, ...] = ("executors",)


class Life(msgspec.Struct, frozen=True):
    variant: Variant
    job: tuple[float, ...]
    """Seconds of each batch."""
    neighbour: tuple[float, ...]
    others: float
    checkpoints: int
    failed_checkpoints: int


@dataclass(frozen=True)
class Measured:
    lives: tuple[Life, ...]

    def times(self, variant: Variant, whose: Callable[[Life], tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(seconds for life in self.lives if life.variant == variant for seconds in whose(life))


def job_of(life: Life) -> tuple[float, ...]:
    return life.job


def neighbour_of(life: Life) -> tuple[float, ...]:
    return life.neighbour


def measure(place: Path, load: Load, rounds: int) -> Measured:
    place.mkdir(parents=True)
    with standalone_cluster(place) as cluster:
        for _ in range(_WORKERS):
            cluster.add_worker(cores=_CORES)
        orders = [VARIANTS if number % 2 == 0 else VARIANTS[::-1] for number in range(rounds)]
        variants = [*_WARM_UP_LIVES, *(variant for order in orders for variant in order)]
        command = [sys.executable, "-m", "bench.cluster", cluster.url, str(place), *variants]
        command += ["--load", msgspec.json.encode(load).decode()]
        log = place / "log.txt"
        with log.open("wb") as output:
            done = subprocess.run(command, stdout=output, stderr=output, check=False)
    if done.returncode != 0:
        tail = log.read_text(errors="replace").splitlines()[-15:]
        raise RuntimeError("\n".join([f"the driver ended with exit code {done.returncode}:", *tail]))
    lives = msgspec.json.decode((place / "lives.json").read_bytes(), type=tuple[Life, ...])
    return Measured(lives[len(_WARM_UP_LIVES) :])


def ratios(measured: Measured, promised: bool) -> Iterator[Ratio]:
    disturbed = max(life.others for life in measured.lives) > DISTURBED
    for variant in ("executors", "auto"):
        for name, whose in (("batch", job_of), ("neighbour's batch", neighbour_of)):
            for share, shown in ((0.5, "median"), (0.99, "p99")):
                during = quantile(measured.times(variant, whose), share)
                without = quantile(measured.times("quiet", whose), share)
                expected = EXPECTED_P99 if promised and share == 0.99 else None
                title = f"{shown} {name} time, {variant}: no checkpoint"
                yield Ratio(title, during / without, False, expected, disturbed)


# --- the driver ---


def live(spark: SparkSession, variant: Variant, load: Load, place: Path) -> Life:
    import holdfast
    from holdfast.sinks import Files

    (place / "home").mkdir(parents=True)
    running = holdfast.start(
        lambda _: aggregation(spark, load),
        job=JOB,
        home=f"file://{place / 'home'}",
        sink=Files(place / "output"),
        work=place / "work",
        spark=spark,
        **OPTIONS[variant],
    )
    beside = _neighbour(spark, place)
    wait_for(load.warm_up, lambda: running.query)
    begun = processor.now(os.getppid())  # the cluster is its child, too
    first = _newest(beside)
    query = wait_for(load.warm_up + load.batches, lambda: running.query)
    ended = processor.now(os.getppid())
    last = _newest(beside)
    life = Life(
        variant,
        _batch_seconds(query, load.warm_up, load.warm_up + load.batches),
        _batch_seconds(beside, first, last),
        processor.others_between(begun, ended),
        (statistics := running.status().statistics).completed,
        statistics.failed,
    )
    beside.stop()
    running.stop(timeout="60s")
    return life


def _neighbour(spark: SparkSession, place: Path) -> StreamingQuery:
    """Stateless and small, a batch as soon as the last one is done: it feels at once when it has to wait for a slot."""
    events = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2000).option("numPartitions", 1).load()

    def count(batch: DataFrame, _: int) -> None:
        batch.selectExpr("sum(value)").collect()

    writer = events.writeStream.foreachBatch(count).option("checkpointLocation", f"file://{place}/neighbour")
    return writer.trigger(processingTime="250 milliseconds").start()


def _newest(query: StreamingQuery) -> int:
    return int(wait_for(0, lambda: query).lastProgress["batchId"])


def _batch_seconds(query: StreamingQuery, first: int, last: int) -> tuple[float, ...]:
    """What Spark says of how long each batch took, its pauses not included."""
    progress = {entry["batchId"]: entry["durationMs"]["triggerExecution"] for entry in query.recentProgress}
    return tuple(progress[number] / 1000 for number in range(first, last) if number in progress)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("place", type=Path)
    parser.add_argument("variants", nargs="+", choices=VARIANTS)
    parser.add_argument("--load", required=True, help="JSON")
    arguments = parser.parse_args()
    load = msgspec.json.decode(arguments.load, type=Load)
    spark = session(
        {
            **SPARK,
            "spark.master": arguments.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "768m",
            "spark.scheduler.mode": "FAIR",
        }
    )
    lives: Sequence[Life] = [
        live(spark, variant, load, arguments.place / str(number)) for number, variant in enumerate(arguments.variants)
    ]
    (arguments.place / "lives.json").write_bytes(msgspec.json.encode(lives))


if __name__ == "__main__":
    main()
