"""Operator by state format: run, checkpoint, kill -9, wipe, restore to another place, run to the end; the output is
compared with the answer in plain Python, row by row.

All operators are jobs of one driver process. `make torture` adds the formats that CI leaves out.
"""

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.snapshot.work_directory import newest_barrier
from holdfast.storage.urls import open_store
from holdfast.storage.work_path import WorkPath, work_path
from tests.end_to_end.harness import TORTURE, WARM_JVM, Driver
from tests.end_to_end.operators import (
    CASES,
    NEEDS_ROCKSDB,
    NOBODY,
    NOON,
    SECONDS,
    Case,
    all_events,
    write_seconds,
)
from tests.stores.hdfs_server import running_hdfs

FORMATS = ("rocksdb-v2", "hdfs", "rocksdb", "rocksdb-changelog") if TORTURE else ("rocksdb-v2",)
ON_HDFS = " with its work on HDFS"
PLACES = ("", ON_HDFS) if TORTURE else ("",)
PARTITIONS = 2 if TORTURE else 1


class Story:
    """Two lives of one process with all jobs in it, and what they left."""

    def __init__(self, root: Path, state_format: str, works: WorkPath) -> None:
        """The work directory of the first life is `works`/work, of the second `works`/elsewhere."""
        self.root = root
        self.works = works
        self.state_format = state_format
        self.refused: dict[str, str] = {}
        (root / "home").mkdir()
        source = root / "source"
        write_seconds(source, range(4))

        first = self._life("work")
        try:
            self._until("checkpointed", first)
            write_seconds(source, range(4, 6))
            self._until("beyond", first)
        finally:
            first.kill()
        self.newest = {name: self._committed(name) for name in CASES}
        if isinstance(works, Path):
            shutil.rmtree(works / "work")
        else:
            (works / "work").remove_tree()

        write_seconds(source, range(6, SECONDS + 2))
        second = self._life("elsewhere", finish=True)
        try:
            self.end = second.end()
        finally:
            second.process.kill()

    def _life(self, work: str, **more: Any) -> Driver:
        given = {"root": str(self.root), "work": str(self.works / work), "partitions": PARTITIONS, **more}
        given["state_format"] = self.state_format
        jvm = None if TORTURE else WARM_JVM
        return Driver(given, self.root / "driver.log", jvm, program="tests.end_to_end.operators_driver")

    def _until(self, wanted: str, driver: Driver) -> None:
        for line in driver.lines():
            if line == wanted:
                return
            kind, name, message = (*line.split(" ", 2), "", "")[:3]
            if kind == "refused":
                self.refused[name] = message
        raise AssertionError(f"the driver ended before {wanted!r}: see {self.root / 'driver.log'}")

    def _committed(self, name: str) -> int:
        try:
            runs = list((self.works / "work" / name).iterdir())
        except FileNotFoundError:
            return -1
        found = [newest_barrier(run) for run in runs if run.is_dir()]
        return max((barrier for barrier in found if barrier is not None), default=-1)

    def state(self, name: str) -> JobState:
        return JobState.of(read_entries(open_store(f"file://{self.root / 'home'}").scoped(name)))

    def touched(self, name: str) -> list[str]:
        return [place for place in ("home", "work", "elsewhere", "output") if (self.root / place / name).exists()]


@pytest.fixture(scope="module", params=[f"{name}{place}" for place in PLACES for name in FORMATS])
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    state_format = request.param.removesuffix(ON_HDFS)
    root = tmp_path_factory.mktemp(state_format)
    if request.param.endswith(ON_HDFS):
        with running_hdfs(tmp_path_factory.mktemp("server"), datanodes=2) as server:
            story = Story(root, state_format, work_path(f"{server.address}/works"))
    else:
        story = Story(root, state_format, root)
    code, last = story.end
    assert code == 0, f"exit {code}: {last}; see {story.root / 'driver.log'}"
    return story


@pytest.mark.parametrize("name", CASES)
def test_the_output_is_exact_or_the_query_is_refused(story: Story, name: str) -> None:
    if story.state_format == "hdfs" and name in NEEDS_ROCKSDB:
        assert "transformWithState" in story.refused[name]
        assert "Try: " in story.refused[name]
        assert "RocksDBStateStoreProvider" in story.refused[name]
        assert story.touched(name) == []
        return
    assert name not in story.refused
    require_restored(story, name)
    case = CASES[name]
    assert visible(story.root / "output" / name, case) == in_order(case.answer(all_events()))


def test_every_line_of_the_log_names_the_job_that_it_is_about(story: Story) -> None:
    """All these jobs are in one process."""
    lines = re.findall(r"^[\d-]+ [\d:,]+ [A-Z]+ holdfast (.*)", (story.root / "driver.log").read_text(), re.MULTILINE)
    assert {line.partition(": ")[0] for line in lines} == CASES.keys() - story.refused.keys()


def require_restored(story: Story, name: str) -> None:
    """The second life began at the checkpoint, and what was killed had gone on from there."""
    state = story.state(name)
    first, *_ = (entry for _, entry in sorted(state.completed.items()))
    assert first.barrier_batch_id < story.newest[name]
    assert not state.restarts
    assert len(state.runs) == 2


def visible(output: Path, case: Case) -> list[tuple[Any, ...]]:
    rows = [row for row in (_table(output) if case.columns else _replaced(output)) if _is_wanted(row)]
    if case.newest_only:
        assert len({(row["key"], row["n"]) for row in rows}) == len(rows), "a row is visible twice"
        rows = list({row["key"]: row for row in sorted(rows, key=lambda row: row["n"])}.values())
    columns = case.columns or ("key", "n", "total")
    return in_order(tuple(_utc(row[column]) for column in columns) for row in rows)


def _table(output: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    rows: list[dict[str, Any]] = DeltaTable(str(output)).to_pyarrow_table().to_pylist()
    return rows


def _replaced(output: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in output.glob("[!.]*") for line in path.read_text().splitlines()]


def _is_wanted(row: dict[str, Any]) -> bool:
    at = row.get("at") or row.get("start")
    return row["key"] != NOBODY and (at is None or at.astimezone(UTC) < NOON)


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(rows, key=str)
