"""What durable plans cost a query with a writer of its own: batches with plans against batches without, in one process.

The same windowed aggregation, written by a `foreachBatch` that appends Parquet, checkpointed every five seconds. The
home is on the local disk, and on an S3 server behind a proxy that holds each request back for 30 ms. `python -m
bench.planned` is the process that runs Spark.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession

import holdfast
from bench import processor
from bench.pipeline import INTERVAL, JOB, SPARK, Load, aggregation, batch_seconds, session, wait_for
from bench.ratio import Ratio
from tests.stores.proxy import Proxy, proxy_to
from tests.stores.s3 import s3_server

Home = Literal["disk", "s3"]
HOMES: tuple[Home, ...] = ("disk", "s3")
REQUEST_S = 0.030
EXPECTED = 0.98
DISTURBED = 0.2


class Lived(msgspec.Struct, frozen=True):
    """One life of the query."""

    home: Home
    plans: bool
    batch_seconds: tuple[float, ...]
    requests: int
    """To the S3 server, during these batches; also those that find nothing."""
    others: float
    """Cores that other processes kept busy meanwhile."""

    @property
    def milliseconds(self) -> float:
        return median(self.batch_seconds) * 1000

    @property
    def requests_per_batch(self) -> float:
        return self.requests / len(self.batch_seconds)


def measure(place: Path, load: Load, rounds: int) -> list[Lived]:
    place.mkdir(parents=True)
    result = place / "lives.json"
    command = [sys.executable, "-m", "bench.planned", str(place), str(rounds), msgspec.json.encode(load).decode()]
    subprocess.run(command, check=True)
    return msgspec.json.decode(result.read_bytes(), type=list[Lived])


def ratios(lives: list[Lived]) -> Iterator[Ratio]:
    """Of the speed with plans to that without, round by round."""
    for home in HOMES:
        here = [life for life in lives if life.home == home]
        pairs = zip(_with(here, plans=True), _with(here, plans=False), strict=True)
        value = median(without.milliseconds / planned.milliseconds for planned, without in pairs)
        disturbed = max(life.others for life in here) > DISTURBED
        yield Ratio(f"own writer, batches/s with plans: home on {home}", value, True, EXPECTED, disturbed)


def described(lives: list[Lived]) -> Iterator[str]:
    for home in HOMES:
        for plans in (False, True):
            found = [life for life in lives if life.home == home and life.plans is plans]
            milliseconds = median(life.milliseconds for life in found)
            requests = median(life.requests_per_batch for life in found)
            counted = f", {requests:.1f} requests" if home == "s3" else ""
            yield f"home on {home}, {'with' if plans else 'without'} plans: {milliseconds:.0f} ms per batch{counted}"


def _with(lives: list[Lived], *, plans: bool) -> list[Lived]:
    return [life for life in lives if life.plans is plans]


class _Bench:
    def __init__(self, spark: SparkSession, load: Load, proxy: Proxy, home_on_s3: str) -> None:
        self._spark = spark
        self._load = load
        self._proxy = proxy
        self._home_on_s3 = home_on_s3

    def live(self, home: Home, place: Path, *, plans: bool) -> Lived:
        place.mkdir(parents=True)
        (place / "home").mkdir()
        url = f"file://{place / 'home'}" if home == "disk" else self._home_on_s3.format(place.name)
        frame = aggregation(self._spark, self._load)

        def write(batch: DataFrame, number: int) -> None:
            batch.write.mode("append").parquet(f"file://{place}/output")

        running = holdfast.start(
            frame.writeStream.foreachBatch(write),
            job=JOB,
            home=url,
            interval=INTERVAL,
            work=place / "work",
            spark=self._spark,
            plans="require" if plans else "off",
        )
        wait_for(self._load.warm_up, lambda: running.query)
        begun, before = processor.now(), len(self._proxy.seen)
        last = self._load.warm_up + self._load.batches
        query = wait_for(last, lambda: running.query)
        ended, after = processor.now(), len(self._proxy.seen)
        seconds = batch_seconds(query, self._load)
        running.stop(timeout="60s")
        return Lived(home, plans, seconds, after - before, processor.others_between(begun, ended))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("rounds", type=int)
    parser.add_argument("load", help="JSON")
    arguments = parser.parse_args()
    place, load = arguments.place, msgspec.json.decode(arguments.load, type=Load)
    with ExitStack() as servers:
        (place / "s3").mkdir()
        server = servers.enter_context(s3_server(place / "s3"))
        os.environ.update(server.environment)
        proxy = servers.enter_context(proxy_to(server.endpoint))
        proxy.delay = REQUEST_S
        bench = _Bench(
            session(SPARK | {"spark.ui.showConsoleProgress": "false"}), load, proxy, server.home("{}", proxy.endpoint)
        )
        # The first life in a JVM takes twice as long per batch as those that follow.
        bench.live("disk", place / "unmeasured", plans=True)
        lives = [
            bench.live(home, place / f"{round}-{home}-{'with' if plans else 'without'}", plans=plans)
            for round in range(arguments.rounds)
            for home in HOMES
            for plans in ((True, False) if round % 2 else (False, True))
        ]
    (place / "lives.json").write_bytes(msgspec.json.encode(lives))


if __name__ == "__main__":
    main()
