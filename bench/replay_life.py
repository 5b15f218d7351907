"""One life of a query whose batches are planned: `python -m bench.replay_life JSON`. Tells what it does, until it is
killed:

    checkpoint                  of a life that only builds: all of the state is in one
    repeated NEWEST SECONDS     planned batches, one at a time, before the query went on
    recovered SECONDS           from the call of holdfast to the first new batch
    batch NUMBER SECONDS        a new one was committed, so long after the call
    behind COUNT ESTIMATED      a checkpoint begins; batches that none has, and how long a recovery would take

The state is that of `bench.recovery_life`: a row of incompressible bytes per key. The writer is a `foreachBatch` that
keeps nothing and is asked nothing: every batch behind the checkpoint is repeated.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import DataFrame

import holdfast
from bench.pipeline import session
from bench.recovery_life import LOOK_S, SPARK, keyed
from holdfast.job_log import measured_phases

JOB = "replay"


class Life(msgspec.Struct, frozen=True):
    place: str
    rows: int
    """Per batch."""
    target: str = "off"
    building: bool = False
    """One batch and no more, and a checkpoint after it."""


def main() -> None:
    logging.basicConfig()
    life = msgspec.json.decode(sys.argv[1], type=Life)
    spark = session(SPARK | {"spark.local.dir": f"{life.place}/local"})
    writer = keyed(spark, life.rows).writeStream.outputMode("update").foreachBatch(_write)
    began = time.monotonic()
    with measured_phases(_phases(life)):
        running = holdfast.start(
            writer.trigger(processingTime="1 hour") if life.building else writer,
            job=JOB,
            home=f"file://{_home(life)}",
            work=Path(life.place) / "work",
            spark=spark,
            interval="1h",
            plans="require",
            recovery_target=life.target,
        )
        _tell_all(running, life, lambda: time.monotonic() - began)


def _home(life: Life) -> Path:
    home = Path(life.place) / "home"
    home.mkdir(exist_ok=True)
    return home


def _write(batch: DataFrame, number: int) -> None:
    batch.write.format("noop").mode("overwrite").save()


def _phases(life: Life) -> Callable[[str, bool], None]:
    began: dict[str, float] = {}

    def phased(name: str, begins: bool) -> None:
        if begins:
            began[name] = time.monotonic()
        elif name == "repeating batches" and name in began:
            commits = (Path(life.place) / "work").glob("*/*/commits/[0-9]*")
            newest = max((int(path.name) for path in commits), default=-1)
            _tell(f"repeated {newest} {time.monotonic() - began.pop(name):.3f}")

    return phased


def _tell_all(running: Any, life: Life, since: Callable[[], float]) -> None:
    """For ever: the parent kills."""
    told, is_behind = -1, False
    while True:
        query, status = running.query, running.status()
        if query is not None and (failure := query.exception()):
            raise RuntimeError(f"the pipeline failed: {failure}")
        progress: Any = query.lastProgress if query is not None else None
        if progress is not None and progress["batchId"] > told and progress["numInputRows"] > 0:
            if told < 0:
                _tell(f"recovered {since():.3f}")
            told = progress["batchId"]
            _tell(f"batch {told} {since():.3f}")
            if life.building:
                running.checkpoint(timeout="10m")
                _tell("checkpoint")
        if status.under_way and status.recovery is not None and not is_behind and not life.building:
            is_behind = True
            _tell(f"behind {status.recovery.batches} {status.recovery.seconds:.3f}")
        time.sleep(LOOK_S)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
