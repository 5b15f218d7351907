"""Several lives of the same jobs, each under a PySpark of its own and in another place: all but the last are killed.

Each life but the first restores what the one before it had made durable. At the end the output is compared with the
answer in plain Python, row by row.
"""

import os
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from holdfast.repository.journal import read_entries
from holdfast.repository.state import JobState
from holdfast.storage.urls import open_store
from tests.compat.environments import interpreter_of
from tests.compat.plans import INTO_FILES, Plan
from tests.end_to_end.harness import Driver
from tests.end_to_end.operators import CASES, NOBODY, NOON, SECONDS, Case, all_events, write_seconds

EXACT = "exact"
_NOT_LOOKED_AT = re.compile(r"could not inspect the query's (?:state|sources) before the start: .*")
_VERSION_NOTE = re.compile(r"(?:note|refused) +Spark version .*")


class Story:
    def __init__(self, root: Path, plan: Plan) -> None:
        shutil.rmtree(root, ignore_errors=True)
        (root / "home").mkdir(parents=True)
        self._root = root
        self._source = root / "source"
        self.log = root / "driver.log"
        self._plan = plan
        self._fed = 0
        self._refused: dict[str, str] = {}

    def outcomes(self) -> dict[str, str]:
        """Of each case: `exact`, or what went wrong."""
        try:
            self._live()
        except AssertionError as error:
            return dict.fromkeys(self._plan.cases, str(error))
        return {case: self._outcome(case) for case in self._plan.cases}

    def remarks(self) -> tuple[str, ...]:
        """What preflight could not see, and what it said of Spark's version."""
        text = self.log.read_text(errors="replace")
        found = [*_NOT_LOOKED_AT.findall(text), *(" ".join(note.split()) for note in _VERSION_NOTE.findall(text))]
        return tuple(dict.fromkeys(found))

    def forget(self) -> None:
        shutil.rmtree(self._root)

    def _live(self) -> None:
        *killed, last = self._plan.versions
        self._feed(2)
        for number, version in enumerate(killed):
            driver = self._life(number, version)
            self._until("checkpointed", driver)
            self._feed(1)
            self._until("beyond", driver)
            driver.kill()
            shutil.rmtree(self._work(number))
        self._feed(SECONDS + 2 - self._fed)
        driver = self._life(len(killed), last, finish=True)
        for line in driver.lines():
            self._hear(line)
        code = driver.process.wait()
        assert code == 0, f"under {last}: exit {code}"

    def _feed(self, files: int) -> None:
        write_seconds(self._source, range(self._fed, self._fed + files))
        self._fed += files

    def _life(self, number: int, version: str, *, finish: bool = False) -> Driver:
        python = interpreter_of(version)
        os.environ["JDK_JAVA_OPTIONS"] = _jvm_options(python)
        given = {
            "root": str(self._root),
            "work": str(self._work(number)),
            "state_format": self._plan.state_format,
            "began": {case: self._durable(case) for case in self._plan.cases},
            "finish": finish,
        }
        return Driver(given, self.log, program="tests.compat.driver", python=python)

    def _work(self, number: int) -> Path:
        return self._root / f"work-{number}"

    def _durable(self, case: str) -> int:
        """The batch that the next life restores, -1 for none."""
        state = JobState.of(read_entries(open_store(f"file://{self._root / 'home'}").scoped(case)))
        return max((entry.barrier_batch_id for entry in state.restorable()), default=-1)

    def _until(self, wanted: str, driver: Driver) -> None:
        line = ""
        for line in driver.lines():
            if line == wanted:
                return
            self._hear(line)
        raise AssertionError(f"ended before {wanted!r}: {line}")

    def _hear(self, line: str) -> None:
        if line.startswith("refused "):
            _, case, why = line.split(" ", 2)
            self._refused.setdefault(case, why)

    def _outcome(self, case: str) -> str:
        if case in self._refused:
            return f"refused: {self._refused[case]}"
        found = _visible(_rows(self._root / "output" / case, case), CASES[case])
        answer = sorted(CASES[case].answer(all_events()), key=str)
        return EXACT if found == answer else f"wrong: {len(found)} rows for {len(answer)}"


def _rows(output: Path, case: str) -> list[dict[str, Any]]:
    """What a reader of the sink sees."""
    table = pq.read_table(output) if case in INTO_FILES else DeltaTable(str(output)).to_pyarrow_table()
    return list(table.to_pylist())


def _visible(rows: list[dict[str, Any]], case: Case) -> list[tuple[Any, ...]]:
    """Without the rows that only close windows."""
    rows = [row for row in rows if _is_wanted(row)]
    if case.newest_only:
        rows = list({row["key"]: row for row in sorted(rows, key=lambda row: row["n"])}.values())
    return sorted((tuple(_utc(row[column]) for column in case.columns) for row in rows), key=str)


def _is_wanted(row: dict[str, Any]) -> bool:
    at = row.get("at") or row.get("start")
    return row["key"] != NOBODY and (at is None or at.astimezone(UTC) < NOON)


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _jvm_options(python: str) -> str:
    code = "from tests import short_lived_jvm; print(short_lived_jvm.options())"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
