"""A streaming query without Spark: it keeps Spark's layout of offsets, commits, source log and state, and its rules.

Each input row comes out once, with how many came before it and their sum: a row is right only if the state was. What
comes out does not depend on how the input is cut into batches.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from holdfast.errors import Fenced, HoldfastError
from holdfast.identifiers import BatchId
from holdfast.plans.replay import How, Repeat
from holdfast.plans.spark_logs import put_in_place
from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.runtime.query.causes import StartFailed
from holdfast.runtime.query_end import AS_ASKED, EndedBy, QueryEnd
from holdfast.sinks import SinkContext, SinkState, delta, files, ledger
from holdfast.sinks.committed import Written
from holdfast.sinks.protocol import Step
from holdfast.workdir.factory import work_directory
from tests.unit.quiet_query import QuietQuery

BATCHES_RETAINED = 4
COMPACTED_EVERY = 5
SCHEMA = StructType([StructField(name, LongType()) for name in ("id", "before", "total")])

Row = dict[str, int]


def transformed(ids: Sequence[int], before: int, total: int) -> list[Row]:
    """What comes out for these ids after `before` others whose sum is `total`."""
    rows = []
    for number in ids:
        total += number
        rows.append({"id": number, "before": before, "total": total})
        before += 1
    return rows


def write_parquet(rows: Any, directory: Path, partition_by: tuple[str, ...] = ()) -> Written:
    """Stands in for Spark's writer: up to three files."""
    directory.mkdir(parents=True)
    schema = pa.schema([(field.name, pa.int64()) for field in SCHEMA.fields])
    third = max(1, -(-len(rows) // 3))
    parts = [rows[at : at + third] for at in range(0, len(rows), third)]
    paths = [directory / f"part-{number}.parquet" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        pq.write_table(pa.Table.from_pylist(part, schema), path)
    return Written(len(rows), {path: path.stat().st_size for path in paths})


def use_instead_of_spark() -> None:
    """In this process sinks stage lists of rows."""
    files.write_parquet = delta.write_parquet = write_parquet  # type: ignore[assignment, attr-defined]
    delta.with_marked_values = lambda rows, partition_by: rows  # type: ignore[attr-defined]


class Engine(QuietQuery):
    batches_retained = BATCHES_RETAINED

    def __init__(self, sink: Any, source: Path, step: Step, *, ends: bool, per_batch: int, pause: float) -> None:
        """`ends`: when its input is used up, like the trigger available-now."""
        self.sink = sink
        self.query = None
        self._source, self._step = source, step
        self._ends, self._per_batch, self._pause = ends, per_batch, pause
        self._directory = Path()
        self._done = -1
        self._supervisor: Supervisor | None = None
        self._end: QueryEnd | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        state: SinkState = self.sink.look(context, None, SCHEMA)
        return state

    def missing_input(self, paths: Sequence[str]) -> tuple[str, ...] | None:
        return tuple(path for path in paths if not Path(path.removeprefix("file://")).exists())

    def open_sink(self, context: SinkContext) -> None:
        self.sink.open(context, None, SCHEMA)

    def end(self) -> QueryEnd | None:
        return self._end

    def plans_refusal(self) -> str | None:
        return None

    def repeat(self, directory: RunDirectory, steps: Sequence[Repeat]) -> None:
        self._directory = Path(directory.location)
        self._done = _newest(self._directory / "commits")
        for step in steps:
            self._step("repeat")
            put_in_place(directory, step.plan)
            if step.how is How.LEAVE:
                return
            try:
                self._execute(step.batch_id, discard=step.how is How.DISCARD)
            except (OSError, HoldfastError) as error:
                raise StartFailed(f"batch {step.batch_id} could not be repeated: {error}") from error

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        self._begin(directory, supervisor)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def _begin(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._directory = Path(directory.location)
        self._done = _newest(self._directory / "commits")
        self._end = None
        self._stopping.clear()
        if not (self._directory / "metadata").exists():
            id = uuid.UUID(int=Random(directory.location).getrandbits(128))  # the same when a world is played again
            self._write("metadata", json.dumps({"id": str(id)}))

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if not self._batch():
                    if self._ends:
                        break
                    self._stopping.wait(0.02)
                self._stopping.wait(self._pause)
            self._end = AS_ASKED
        except Exception as error:
            self._end = QueryEnd(EndedBy.ERROR, f"{type(error).__name__}: {error}")
        assert self._supervisor is not None
        self._supervisor.ended()

    def _batch(self) -> bool:
        """False when there is nothing to read."""
        batch = self._done + 1
        taken = self._planned(batch) if _newest(self._directory / "offsets") > self._done else self._plan(batch)
        if not taken:
            return False
        assert self._supervisor is not None
        if not self._supervisor.still_owner():
            raise Fenced("another run owns the job now")
        self._execute(batch)
        return True

    def _execute(self, batch: int, *, discard: bool = False) -> None:
        taken, state = self._planned(batch), self._state(batch)
        self._step("batch.begin")
        ids = [number for path in taken for number in json.loads(path.read_text())]
        if not discard:
            self._write_rows(transformed(ids, *state), BatchId(batch))
        self._change_state(batch, state, ids)
        self._write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        self._done = batch
        self._forget(batch - BATCHES_RETAINED)

    def _write_rows(self, rows: list[Row], batch: BatchId) -> None:
        staged = self.sink.stage(rows, batch)
        self._step("batch.staged")
        ledger.write(work_directory(self._directory), staged)
        self._step("batch.ledger")

    def _plan(self, batch: int) -> list[Path]:
        read = self._read_before(batch)
        new = sorted(path for path in self._source.glob("*.json") if path.name not in read)[: self._per_batch]
        if new:
            self._log_read(batch, read, {path.name: _line(path, batch) for path in new})
            offsets = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{{"logOffset":{batch}}}'
            assert self._supervisor is not None
            if self._supervisor.keep_plan is not None:
                self._supervisor.keep_plan(BatchId(batch), offsets.encode(), self._stopping.is_set)
            self._write(f"offsets/{batch}", offsets)
        return new

    def _log_read(self, batch: int, before: dict[str, str], lines: dict[str, str]) -> None:
        if (batch + 1) % COMPACTED_EVERY == 0:
            self._write(f"sources/0/{batch}.compact", "\n".join(["v1", *(before | lines).values()]))
        else:
            self._write(f"sources/0/{batch}", "\n".join(["v1", *lines.values()]))

    def _planned(self, batch: int) -> list[Path]:
        lines = self._read_before(batch + 1).values()
        logged = [json.loads(line) for line in lines]
        return [Path(entry["path"].removeprefix("file://")) for entry in logged if entry["batchId"] == batch]

    def _read_before(self, batch: int) -> dict[str, str]:
        """Every file that batches before this one have read, by name, as the source's log says."""
        read: dict[str, str] = {}
        for number in range(batch):
            log = self._directory / f"sources/0/{number}"
            compacted = log.with_name(f"{number}.compact")
            if compacted.exists():
                read = {}
                log = compacted
            elif not log.exists():
                if number >= batch - batch % COMPACTED_EVERY:
                    raise FileNotFoundError(f"batch {number} is missing in the source's log {log.parent}")
                continue
            for line in log.read_text().splitlines()[1:]:
                read[Path(json.loads(line)["path"]).name] = line
        return read

    def repartitioned(self, directory: Path, barrier: int) -> int:
        """As Spark's repartitioning: one more batch, which reads and writes nothing. What state there is."""
        self._directory = directory
        batch = barrier + 1
        state = self._state(batch)
        self._log_read(batch, self._read_before(batch), {})
        self._write(f"offsets/{batch}", (directory / f"offsets/{barrier}").read_text())
        self._write(f"state/0/0/{batch + 1}.snapshot", json.dumps(state))
        self._write(f"commits/{batch}", 'v1\n{"nextBatchWatermarkMs":0}')
        return state[0]

    def _state(self, version: int) -> tuple[int, int]:
        """How many rows the batches before `version` had, and their sum."""
        folder = self._directory / "state/0/0"
        changes: list[tuple[int, int]] = []
        for number in range(version, 0, -1):
            snapshot = folder / f"{number}.snapshot"
            if snapshot.exists():
                changes.append(tuple(json.loads(snapshot.read_text())))
                break
            changes.append(tuple(json.loads((folder / f"{number}.delta").read_text())))
        return sum(count for count, _ in changes), sum(total for _, total in changes)

    def _change_state(self, batch: int, state: tuple[int, int], ids: list[int]) -> None:
        change = (len(ids), sum(ids))
        self._write(f"state/0/0/{batch + 1}.delta", json.dumps(change))
        if batch % 3 == 0:
            total = (state[0] + change[0], state[1] + change[1])
            self._write(f"state/0/0/{batch + 1}.snapshot", json.dumps(total))

    def _write(self, path: str, text: str) -> None:
        """As Spark does: under another name first."""
        target = self._directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        temporary.write_text(text)
        temporary.rename(target)

    def _forget(self, oldest: int) -> None:
        for name in ("offsets", "commits"):
            _remove(self._directory / name, oldest)
        needed = max((number for number in range(0, oldest + 1) if (number - 1) % 3 == 0), default=0)
        _remove(self._directory / "state/0/0", needed)
        _remove(self._directory / "sources/0", oldest - oldest % COMPACTED_EVERY - 1)


def _line(path: Path, batch: int) -> str:
    return json.dumps({"path": f"file://{path}", "timestamp": 1, "batchId": batch})


def _newest(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def _remove(folder: Path, below: int) -> None:
    for path in folder.glob("*"):
        number = path.name.split(".")[0]
        if number.isdigit() and int(number) < below:
            path.unlink()
