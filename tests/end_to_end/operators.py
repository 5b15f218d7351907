"""Every kind of query that keeps state, and what its whole output must be, computed in plain Python.

The input comes in files of one second of event time each, in order, but for a few rows of the second before that come
once more. No row is ever late, and no answer depends on how the input is cut into batches.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

try:
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
except ImportError:  # before Spark 4.0, under which the other queries are run too
    StatefulProcessor = StatefulProcessorHandle = object

START = datetime(2026, 1, 1, tzinfo=UTC)
NOON = START + timedelta(hours=12)
"""After every event, before those that only close windows."""
SECONDS = 8
DELAY = "3 seconds"
SESSION_GAP = timedelta(milliseconds=900)
SCHEMA = "at TIMESTAMP, key INT, value LONG"
NOBODY = -1
"""The key of rows that only move the watermark."""


class Event(NamedTuple):
    at: datetime
    key: int
    value: int


Answer = list[tuple[Any, ...]]
Read = Callable[[], DataFrame]
"""The input as a stream, with a watermark; another source each time it is called."""


@dataclass(frozen=True)
class Case:
    build: Callable[[Read, Path], DataFrame | DataStreamWriter]
    answer: Callable[[list[Event]], Iterable[tuple[Any, ...]]]
    columns: tuple[str, ...] = ()
    """Of the output; none when the query has a writer of its own."""
    newest_only: bool = False
    """What is put out of a key goes on changing: only what was put out last is compared."""


# --- input ---


def events_of(second: int) -> list[Event]:
    if second >= SECONDS:
        return [Event(START + timedelta(days=second - SECONDS + 1), NOBODY, 300_000 + n) for n in range(2)]
    again = _new_in(second - 1)[:2] if second else []
    return [*again, *_new_in(second)]


def _new_in(second: int) -> list[Event]:
    return [Event(START + timedelta(seconds=second, milliseconds=150 * n), n % 3, 100 * second + n) for n in range(6)]


def all_events() -> list[Event]:
    """Without those that only close windows."""
    return [event for second in range(SECONDS) for event in events_of(second)]


def write_seconds(folder: Path, seconds: Iterable[int]) -> None:
    """From SECONDS on, files whose time is far away."""
    folder.mkdir(exist_ok=True)
    for second in seconds:
        lines = [json.dumps({"at": at.isoformat(), "key": key, "value": value}) for at, key, value in events_of(second)]
        path = folder / f".{second:05d}"
        path.write_text("\n".join(lines))
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))  # the file source takes files by age
        path.rename(folder / f"{second:05d}.json")


# --- queries ---


def windows(read: Read, _: Path) -> DataFrame:
    return _per_window(read(), "at", 4)


def _per_window(events: DataFrame, at: str, seconds: int) -> DataFrame:
    grouped = events.groupBy(F.window(at, f"{seconds} seconds"), "key")
    totals = grouped.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    return totals.select(F.col("window.start").alias("start"), "key", "n", "total")


def distinct(read: Read, _: Path) -> DataFrame:
    return read().dropDuplicates(["at", "key", "value"])


def distinct_within_watermark(read: Read, _: Path) -> DataFrame:
    return read().dropDuplicatesWithinWatermark(["value"])


def joined(read: Read, _: Path) -> DataFrame:
    """The even ones, each with the odd ones of its key within a second, of which every third second has some."""
    left = read().where("value % 2 = 0").alias("l")
    right = read().where("value % 2 = 1 AND (value DIV 100) % 3 = 0").alias("r")
    close = F.expr("l.key = r.key AND r.at >= l.at AND r.at <= l.at + INTERVAL 1 SECOND")
    return left.join(right, close, "left_outer").selectExpr("l.at", "l.key", "l.value", "r.value AS other")


def sessions(read: Read, _: Path) -> DataFrame:
    """Nobody is seen in every fourth second."""
    gap = f"{SESSION_GAP // timedelta(milliseconds=1)} milliseconds"
    grouped = read().where("(value DIV 100) % 4 <> 3").groupBy(F.session_window("at", gap), "key")
    found = grouped.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    return found.select(F.col("session_window.start").alias("start"), "session_window.end", "key", "n", "total")


def chained(read: Read, _: Path) -> DataFrame:
    """Three stateful operators: deduplication, windows, windows of windows."""
    small = read().dropDuplicates(["at", "key", "value"]).groupBy(F.window("at", "2 seconds"), "key")
    large = small.agg(F.sum("value").alias("value")).groupBy(F.window("window", "4 seconds"), "key")
    totals = large.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    return totals.select(F.col("window.start").alias("start"), "key", "n", "total")


def stateless(read: Read, _: Path) -> DataFrame:
    return read().where("value % 2 = 0").selectExpr("at", "key", "value * 2 AS twice")


class Buckets(StatefulProcessor):
    """Per four seconds, put out by a timer each, and everything at noon: a value, a list, a map, event-time timers."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n LONG")
        self._values = handle.getListState("values", "value LONG")
        self._buckets = handle.getMapState("buckets", "bucket LONG", "n LONG, total LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            if row["key"] == NOBODY:
                continue
            count = self._count.get()
            self._count.update(((count[0] if count else 0) + 1,))
            self._values.appendValue((row["value"],))
            bucket = row["milliseconds"] // 4000
            n, total = self._buckets.getValue((bucket,)) or (0, 0)
            self._buckets.updateValue((bucket,), (n + 1, total + row["value"]))
            self._handle.registerTimer((bucket + 1) * 4000)
            self._handle.registerTimer(_milliseconds(NOON))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        expired = expiredTimerInfo.getExpiryTimeInMs()
        if expired == _milliseconds(NOON):
            (count,), values = self._count.get(), [value for (value,) in self._values.get()]
            self._values.clear()
            yield Row(key=key[0], bucket=None, n=count, total=sum(values))
        else:
            bucket = expired // 4000 - 1
            n, total = self._buckets.getValue((bucket,))
            self._buckets.removeKey((bucket,))
            yield Row(key=key[0], bucket=bucket, n=n, total=total)

    def close(self) -> None: ...


def processor_with_timers(read: Read, _: Path) -> DataFrame:
    events = read().withColumn("milliseconds", F.unix_millis("at"))
    return events.groupBy("key").transformWithState(
        Buckets(), "key INT, bucket LONG, n LONG, total LONG", "append", "EventTime"
    )


class Lasting(StatefulProcessor):
    """A value, a list and a map that live for an hour, and a value that is gone at once."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        hour = 3_600_000
        self._count = handle.getValueState("count", "n LONG", hour)
        self._values = handle.getListState("values", "value LONG", hour)
        self._by_rest = handle.getMapState("by_rest", "rest LONG", "total LONG", hour)
        self._brief = handle.getValueState("brief", "n LONG", 1)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        values = [int(value) for frame in rows for value in frame["value"]]
        count = (self._count.get() or (0,))[0] + len(values)
        self._count.update((count,))
        self._values.appendList([(value,) for value in values])
        for value in values:
            (total,) = self._by_rest.getValue((value % 7,)) or (0,)
            self._by_rest.updateValue((value % 7,), (total + value,))
        if any(value < 100 for value in values):
            self._brief.update((1,))
        kept = sum(value for (value,) in self._values.get())
        rests = sum((rest + 1) * total for (rest,), (total,) in self._by_rest.iterator())
        yield pd.DataFrame(
            {"key": [key[0]], "n": [count], "total": [kept], "rests": [rests], "brief": [self._brief.exists()]}
        )

    def close(self) -> None: ...


def processor_with_ttl(read: Read, _: Path) -> DataFrame:
    return (
        read()
        .groupBy("key")
        .transformWithStateInPandas(
            Lasting(), "key INT, n LONG, total LONG, rests LONG, brief BOOLEAN", "append", "ProcessingTime"
        )
    )


def _until_noon(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        n, total = state.get
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})
        return
    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["value"].sum())
    if key[0] != NOBODY:
        state.update((n, total))
        state.setTimeoutTimestamp(_milliseconds(NOON))


def pandas_with_state(read: Read, _: Path) -> DataFrame:
    return (
        read()
        .groupBy("key")
        .applyInPandasWithState(
            _until_noon,
            "key INT, n LONG, total LONG",
            "n LONG, total LONG",
            "append",
            GroupStateTimeout.EventTimeTimeout,
        )
    )


def _totals(read: Read) -> DataFrame:
    return read().groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


def updating(read: Read, output: Path) -> DataStreamWriter:
    """A writer of the user's own that replaces rows by key."""

    def upsert(batch: DataFrame, _: int) -> None:
        for row in batch.collect():
            _replace(output / str(row["key"]), [row.asDict()])

    return _totals(read).writeStream.outputMode("update").foreachBatch(upsert)


def complete(read: Read, output: Path) -> DataStreamWriter:
    """A writer of the user's own that replaces everything."""

    def replace(batch: DataFrame, _: int) -> None:
        _replace(output / "all", [row.asDict() for row in batch.collect()])

    return _totals(read).writeStream.outputMode("complete").foreachBatch(replace)


def _replace(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}")
    part.write_text("\n".join(map(json.dumps, rows)))
    part.rename(path)


# --- answers ---


def _milliseconds(at: datetime) -> int:
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def _start(at: datetime, seconds: int) -> datetime:
    return START + (at - START) // timedelta(seconds=seconds) * timedelta(seconds=seconds)


def _grouped(pairs: Iterable[tuple[Any, int]]) -> dict[Any, list[int]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def _answer_of_windows(events: Iterable[Event]) -> Answer:
    groups = _grouped(((_start(event.at, 4), event.key), event.value) for event in events)
    return [(start, key, len(values), sum(values)) for (start, key), values in groups.items()]


def _answer_of_join(events: list[Event]) -> Iterator[tuple[Any, ...]]:
    right = [event for event in events if event.value % 2 == 1 and event.value // 100 % 3 == 0]
    for left in (event for event in events if event.value % 2 == 0):
        close = [r for r in right if r.key == left.key and timedelta() <= r.at - left.at <= timedelta(seconds=1)]
        yield from ((*left, r.value) for r in close)
        if not close:
            yield (*left, None)


def _answer_of_sessions(events: list[Event]) -> Iterator[tuple[Any, ...]]:
    for key in range(3):
        session: list[Event] = []
        for event in sorted(e for e in events if e.key == key and e.value // 100 % 4 != 3):
            if session and event.at > session[-1].at + SESSION_GAP:
                yield _session(session)
                session = []
            session.append(event)
        yield _session(session)


def _session(events: list[Event]) -> tuple[Any, ...]:
    first, last = events[0], events[-1]
    return first.at, last.at + SESSION_GAP, first.key, len(events), sum(event.value for event in events)


def _answer_of_chain(events: list[Event]) -> Answer:
    small = _grouped(((_start(event.at, 2), event.key), event.value) for event in set(events))
    large = _grouped(((_start(start, 4), key), sum(values)) for (start, key), values in small.items())
    return [(start, key, len(values), sum(values)) for (start, key), values in large.items()]


def _answer_of_totals(events: list[Event]) -> Answer:
    return [(key, len(values), sum(values)) for key, values in _grouped((e.key, e.value) for e in events).items()]


def _answer_of_buckets(events: list[Event]) -> Answer:
    groups = _grouped(((event.key, _milliseconds(event.at) // 4000), event.value) for event in events)
    buckets: Answer = [(key, bucket, len(values), sum(values)) for (key, bucket), values in groups.items()]
    return buckets + [(key, None, n, total) for key, n, total in _answer_of_totals(events)]


def _answer_of_lasting(events: list[Event]) -> Iterator[tuple[Any, ...]]:
    for key, values in _grouped((event.key, event.value) for event in events).items():
        yield key, len(values), sum(values), sum((value % 7 + 1) * value for value in values), False


CASES = {
    "windows": Case(windows, _answer_of_windows, ("start", "key", "n", "total")),
    "distinct": Case(distinct, set, ("at", "key", "value")),
    "distinct-within-watermark": Case(distinct_within_watermark, set, ("at", "key", "value")),
    "join": Case(joined, _answer_of_join, ("at", "key", "value", "other")),
    "sessions": Case(sessions, _answer_of_sessions, ("start", "end", "key", "n", "total")),
    "chain": Case(chained, _answer_of_chain, ("start", "key", "n", "total")),
    "stateless": Case(
        stateless,
        lambda events: [(e.at, e.key, 2 * e.value) for e in events if e.value % 2 == 0],
        ("at", "key", "twice"),
    ),
    "processor-timers": Case(processor_with_timers, _answer_of_buckets, ("key", "bucket", "n", "total")),
    "processor-ttl": Case(
        processor_with_ttl, _answer_of_lasting, ("key", "n", "total", "rests", "brief"), newest_only=True
    ),
    "pandas-state": Case(pandas_with_state, _answer_of_totals, ("key", "n", "total")),
    "update": Case(updating, _answer_of_totals),
    "complete": Case(complete, _answer_of_totals),
}
NEEDS_ROCKSDB = {"processor-timers", "processor-ttl"}
