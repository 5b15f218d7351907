"""Logs of many jobs: mostly the talk of healthy ones, some checkpoints that fail, in the layouts of Flink and Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

_SEED = 11
_BLOCK_EVENTS = 30_000
_JOB = "0123456789abcdef0123456789abcdef"
_FAILURES_PER_THOUSAND = 2
_BEGIN = datetime(2026, 1, 2, tzinfo=UTC)

_FLINK = "org.apache.flink.runtime."
_TALK = (
    (
        "checkpoint.CheckpointCoordinator",
        "Triggering checkpoint {n} (type=CheckpointType{{name='Checkpoint'}}) @ {ms} for job {job}.",
    ),
    (
        "checkpoint.CheckpointCoordinator",
        "Completed checkpoint {n} for job {job} ({b} bytes, checkpointDuration={m} ms, finalizationTime=11 ms).",
    ),
    (
        "taskmanager.Task",
        "Source: orders -> Map -> Filter ({s}/8)#0 (a5657b784d235731_{n}) switched from DEPLOYING to RUNNING",
    ),
    (
        "resourcemanager.active.ActiveResourceManager",
        "Registering TaskManager with ResourceID tm-{s} under {n} at ResourceManager.",
    ),
    (
        "io.network.partition.ResultPartition",
        "Released result partition {n} of task Window(TumblingEventTimeWindows(60000)) ({s}/8).",
    ),
    ("metrics.MetricRegistryImpl", "Reporting metrics took {m} ms, {b} values, next in {s} s."),
)
_OTHER = (
    (
        "org.apache.kafka.clients.consumer.internals.SubscriptionState",
        "[Consumer clientId=orders-{s}, groupId=orders] Resetting offset for partition orders-{n} to position {b}.",
    ),
    (
        "com.example.orders.Enrichment",
        "customer {b} of region {s} has {n} open orders, latency {m} ms, cache hit ratio 0.9{s}",
    ),
    (
        "com.example.orders.Enrichment",
        "looked up {n} customers in {m} ms; {s} were not found and are asked for again later",
    ),
)
_FRAMES = (
    "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable.finalizeNonFinished(AsyncCheckpointRunnable.java:191)",
    "org.apache.flink.streaming.runtime.tasks.AsyncCheckpointRunnable.run(AsyncCheckpointRunnable.java:124)",
    "java.base/java.util.concurrent.ThreadPoolExecutor.runWorker(ThreadPoolExecutor.java:1136)",
    "java.base/java.util.concurrent.ThreadPoolExecutor$Worker.run(ThreadPoolExecutor.java:635)",
    "java.base/java.lang.Thread.run(Thread.java:833)",
)
_CAUSES = (
    "java.io.IOException: Could not flush to file and close the file system output stream to hdfs://nn/flink/{job}/chk-{n}/x",
    "java.io.IOException: No space left on device",
    "org.apache.hadoop.ipc.RemoteException: File does not exist: /flink/{job}/chk-{n}/x",
    "java.util.concurrent.TimeoutException: Checkpoint expired before completing.",
)

Layout = Callable[[datetime, str, str, str], str]


def _log4j(at: datetime, level: str, logger: str, message: str) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} {level:5} {logger:60} [] - {message}"


def _spark(at: datetime, level: str, logger: str, message: str) -> str:
    return f"{at:%y/%m/%d %H:%M:%S} {level} {logger.rpartition('.')[2]}: {message}"


def _cri(at: datetime, level: str, logger: str, message: str) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}123Z stdout F {_log4j(at, level, logger, message)}"


LAYOUTS: tuple[Layout, ...] = (_log4j, _spark, _cri)


def write(place: Path, megabytes: int, jobs: int = 100) -> None:
    """One file for each job, all of the same size, the same on every machine. Each block is of the next day."""
    place.mkdir(parents=True)
    blocks = [_block(layout, random.Random(_SEED + number)) for number, layout in enumerate(LAYOUTS)]
    for number in range(jobs):
        job = f"{number:032x}"
        block = blocks[number % len(blocks)].replace(_JOB, job).encode()
        _fill(place / f"job-{number:03d}.log", block, megabytes * 2**20 // jobs)


def _fill(path: Path, block: bytes, size: int) -> None:
    with path.open("wb") as file:
        for day in count():
            data, left = _on_day(block, day), size - file.tell()
            if left <= len(data):
                file.write(data[: data.rfind(b"\n", 0, left) + 1])
                return
            file.write(data)


def _on_day(block: bytes, day: int) -> bytes:
    at = _BEGIN + timedelta(days=day)
    for written in ("%Y-%m-%d", "%y/%m/%d"):
        block = block.replace(_BEGIN.strftime(written).encode(), at.strftime(written).encode())
    return block


def _block(layout: Layout, chance: random.Random) -> str:
    at = _BEGIN
    lines: list[str] = []
    for number in range(_BLOCK_EVENTS):
        at += timedelta(milliseconds=chance.randrange(400))
        lines += (
            _failure(layout, at, number)
            if chance.randrange(1000) < _FAILURES_PER_THOUSAND
            else _talk(layout, at, number, chance)
        )
    return "".join(f"{line}\n" for line in lines)


def _talk(layout: Layout, at: datetime, number: int, chance: random.Random) -> Iterator[str]:
    logger, text = chance.choice(_TALK) if chance.random() < 0.1 else chance.choice(_OTHER)
    name = logger if logger.startswith(("org", "com")) else _FLINK + logger
    figures = {"s": chance.randrange(1, 9), "m": chance.randrange(1000), "b": chance.randrange(10**9)}
    yield layout(at, "INFO", name, text.format(n=number, job=_JOB, ms=int(at.timestamp() * 1000), **figures))


def _failure(layout: Layout, at: datetime, number: int) -> Iterator[str]:
    prefix = f"{at:%Y-%m-%dT%H:%M:%S.%f}123Z stdout F " if layout is _cri else ""
    task = "Window(TumblingEventTimeWindows(60000)) -> Sink: orders (3/8)#0"
    yield layout(
        at,
        "WARN",
        _FLINK + "taskmanager.Task",
        f"{task} - asynchronous part of checkpoint {number} could not be completed.",
    )
    yield f"{prefix}java.util.concurrent.CompletionException: checkpoint {number} failed"
    for cause in (_CAUSES[number % 4], _CAUSES[(number + 1) % 4]):
        yield from (f"{prefix}\tat {frame}" for frame in _FRAMES * 2)
        yield f"{prefix}Caused by: {cause.format(job=_JOB, n=number)}"
    yield from (f"{prefix}\tat {frame}" for frame in _FRAMES * 3)
    yield f"{prefix}\t... 12 more"
