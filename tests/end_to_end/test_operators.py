"""Operator by state format: run, checkpoint, kill -9, wipe, restore to another place, run to the end; the output is
compared with the answer in plain Python, row by row.

All operators are jobs of one driver process. `make test` has `SOME`, `make long` all of them, `make torture` in the
other formats too, and with their work on HDFS.
"""

import functools
import json
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.storage.urls import open_store
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
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
SOME = ("join", "chain", "processor-timers", "update")
"""Several stores of one operator, several operators, state in Python that only its operator knows, an own writer."""
A_FEW = ", a few"
STORIES = {f"{name}{place}": tuple(CASES) for place in PLACES for name in FORMATS}
if not TORTURE:
    STORIES[f"{FORMATS[0]}{A_FEW}"] = SOME


def of_story(name: str, *more: str) -> Any:
    marks = [] if TORTURE or name.endswith(A_FEW) else [pytest.mark.long]
    return pytest.param(name, *more, marks=marks, id=" ".join([name, *more]))


class Story:
    """Two lives of one process with all jobs in it, and what they left."""

    def __init__(self, root: Path, state_format: str, cases: Collection[str], works: WorkDirectory) -> None:
        """The work directory of the first life is `works`/work, of the second `works`/elsewhere."""
        self.root = root
        self.cases = cases
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
        self.newest = {name: self._committed(name) for name in cases}
        works.at("work").remove_tree()

        write_seconds(source, range(6, SECONDS + 2))
        second = self._life("elsewhere", finish=True)
        try:
            self.end = second.end()
        finally:
            second.process.kill()

    def _life(self, work: str, **more: Any) -> Driver:
        given = {"root": str(self.root), "work": self.works.at(work).location, "partitions": PARTITIONS, **more}
        given |= {"state_format": self.state_format, "cases": list(self.cases)}
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
        job = self.works.at("work").at(name)
        found = [newest_barrier(job.at(run)) for run in job.folders()]
        return max((barrier for barrier in found if barrier is not None), default=-1)

    def state(self, name: str) -> JobState:
        return JobState.of(read_entries(open_store(f"file://{self.root / 'home'}").scoped(name)))

    def touched(self, name: str) -> list[str]:
        return [place for place in ("home", "work", "elsewhere", "output") if (self.root / place / name).exists()]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Story]:
    """Each of `STORIES` happens once."""
    return functools.cache(functools.partial(tell, tmp_path_factory))


def tell(places: pytest.TempPathFactory, name: str) -> Story:
    state_format = name.removesuffix(ON_HDFS).removesuffix(A_FEW)
    root = places.mktemp(state_format)
    if name.endswith(ON_HDFS):
        with running_hdfs(places.mktemp("server"), datanodes=2) as server:
            story = Story(root, state_format, STORIES[name], work_directory(f"{server.address}/works"))
    else:
        story = Story(root, state_format, STORIES[name], work_directory(root))
    code, last = story.end
    assert code == 0, f"exit {code}: {last}; see {story.root / 'driver.log'}"
    return story


@pytest.mark.parametrize(
    ("which", "name"), [of_story(which, name) for which, names in STORIES.items() for name in names]
)
def test_the_output_is_exact_or_the_query_is_refused(told: Callable[[str], Story], which: str, name: str) -> None:
    story = told(which)
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


@pytest.mark.parametrize("which", [of_story(which) for which in STORIES])
def test_every_line_of_the_log_names_the_job_that_it_is_about(told: Callable[[str], Story], which: str) -> None:
    """All these jobs are in one process."""
    story = told(which)
    lines = re.findall(r"^[\d-]+ [\d:,]+ [A-Z]+ holdfast (.*)", (story.root / "driver.log").read_text(), re.MULTILINE)
    assert {line.partition(": ")[0] for line in lines} == set(story.cases) - story.refused.keys()


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
