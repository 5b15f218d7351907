"""Whole jobs with a real sink and without Spark: the real runtime, real directories, batches written by pyarrow.

Each batch reads one file of the source and writes its rows; what readers see must be those of the batches that are
published, each row once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql.types import StructType

from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.plans.replay import How, Repeat
from holdfast.plans.spark_logs import put_in_place
from holdfast.sinks import Delta, Files, SinkContext, SinkState, ledger
from holdfast.sinks.protocol import Step, no_step
from holdfast.workdir.factory import work_directory
from tests.trust import delta_sink, files_sink
from tests.trust.files_sink import columns
from tests.unit.churning_runs import ChurningQuery, ChurningRun, ManualClock, state_of
from tests.unit.work_files import write


class SinkQuery(ChurningQuery):
    def __init__(self, seed: int, sink: Delta | Files, source: Path, schema: StructType) -> None:
        super().__init__(seed)
        self.sink: Any = sink
        self._source = source
        self._schema = schema
        self._epoch = FencingEpoch(0)
        self.repeated: list[int] = []

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        state: SinkState = self.sink.look(context, None, self._schema)
        return state

    def open_sink(self, context: SinkContext) -> None:
        self._epoch = context.fencing_epoch
        self.sink.open(context, None, self._schema)

    def missing_input(self, paths: Sequence[str]) -> tuple[str, ...] | None:
        return tuple(path for path in paths if not Path(path.removeprefix("file://")).exists())

    def batch(self) -> None:
        batch = self.next_batch
        self.list_input(batch)
        self.stage(batch)
        super().batch()

    @property
    def next_batch(self) -> int:
        return max((int(path.name) for path in (self.directory / "commits").glob("*")), default=-1) + 1

    def list_input(self, batch: int) -> None:
        """As a file source does before its batch is planned."""
        if (self.directory / f"sources/0/{batch}").exists():
            return
        file = self._source / f"{batch}.json"
        file.touch()
        read = json.dumps({"path": f"file://{file}", "timestamp": 1, "batchId": batch})
        write(self.directory, {f"sources/0/{batch}": f"v1\n{read}".encode()})

    def offsets_of(self, batch: int) -> bytes:
        return b'v1\n{"batchWatermarkMs":0}\n{"logOffset":%d}' % batch

    def repeat(self, directory: Any, steps: Sequence[Repeat]) -> None:
        self.directory = Path(directory.location)
        for step in steps:
            put_in_place(directory, step.plan)
            if step.how is How.LEAVE:
                return
            shown = self.sink.published()
            assert (step.how is How.WRITE) == (shown is None or shown < step.batch_id), "readers see it, or will not"
            if step.how is How.WRITE:
                self.stage(step.batch_id)
            self.compute(step.batch_id, {})
            self.repeated.append(step.batch_id)

    def stage(self, batch: int) -> None:
        helper = delta_sink if isinstance(self.sink, Delta) else files_sink
        (staged,) = helper.staged(self.sink, self._epoch, batch)
        ledger.write(work_directory(self.directory), staged)


class Job:
    """Its lives on one host, one after another."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root = root
        self.home, self.work, self.place, self.source = (root / name for name in ("home", "work", "out", "in"))
        self.kind = kind
        self.clock = ManualClock()
        self.number = 0
        self.settings: dict[str, object] = {"retained": 9}
        self.source.mkdir(parents=True)
        self.home.mkdir()

    def run(self, *, schema: StructType | None = None, step: Step = no_step, **settings: object) -> ChurningRun:
        self.number += 1
        sink = Delta(self.place, step=step) if self.kind == "delta" else Files(self.place, step=step)
        query = SinkQuery(self.number, sink, self.source, schema or columns())
        return ChurningRun(
            self.home, self.work, self.clock, self.number, query=query, step=step, **(self.settings | settings)
        )

    def lived(self, batches: int, **settings: object) -> None:
        run = self.run(**settings)
        run.batches(batches)
        run.stop()

    def goes_on(self, run: ChurningRun, batches: int, *, rows: int) -> None:
        """It runs so many batches more and ends; then readers see the rows of `rows` batches."""
        run.batches(batches)
        run.stop()
        self.require_rows(rows)

    def killed(self, batches: int, **settings: object) -> None:
        self.run(**settings).batches(batches)

    def rows(self) -> list[int]:
        return delta_sink.rows(self.place) if self.kind == "delta" else files_sink.rows(self.place)

    def require_rows(self, batches: int) -> None:
        """Those of so many batches, from the first on, each once."""
        assert self.rows() == delta_sink.expected(*range(batches))

    def backup(self, name: str = "backup") -> Path:
        """A copy of the home."""
        return Path(shutil.copytree(self.home, self.root / name))

    def put_back(self, backup: Path) -> None:
        """The home is what it was."""
        shutil.rmtree(self.home)
        shutil.copytree(backup, self.home)

    def wipe_work(self) -> None:
        shutil.rmtree(self.work)

    def rewritten_by_others(self) -> None:
        if self.kind == "delta":
            DeltaTable(str(self.place)).optimize.compact()
        else:
            files_sink.compact(self.place, files_sink.visible(self.place))

    @property
    def published(self) -> BatchId | None:
        sink: Any = Delta(self.place) if self.kind == "delta" else Files(self.place)
        state = state_of(self.home)
        context = SinkContext("churn", state.fencing_epoch, state.lineage or "")  # type: ignore[arg-type]
        looked: SinkState = sink.look(context, None, columns())
        return looked.published


def dying_at(name: str) -> Callable[[str], None]:
    """The process ends there."""

    def step(reached: str) -> None:
        if reached == name:
            raise KeyboardInterrupt(name)

    return step


@pytest.fixture(params=["delta", "files"])
def job(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr("os.fsync", lambda handle: None)
    return Job(tmp_path, request.param)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
