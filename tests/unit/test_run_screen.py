"""The living status of `holdfast run`: what it says, that log lines stay above it, and that it never hurts the job."""

import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.alarm import Alarm
from holdfast.cli.run_screen import rows_per_second, status_lines
from holdfast.coordination.history import Statistics
from holdfast.coordination.lifecycle import Phase
from holdfast.coordination.pending import PendingCheckpoint
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch, ShardId, Ticket
from holdfast.runtime.reports.status import JobStatus, under_way

STATUS = JobStatus("orders", FencingEpoch(3), True, False, BatchId(88), BatchId(80), 0, Statistics(), (), ())
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]")


def said(status: JobStatus, rows: float | None = None, now: float = 100.0) -> list[str]:
    return [line.plain for line in status_lines(status, rows, now)]


def test_a_job_that_is_well_is_one_line() -> None:
    assert said(STATUS) == ["orders ●  batch 88 · no checkpoint in this run yet · published up to 80"]
    counts = Statistics(last_completed=CheckpointId(41), last_completed_at=79.0)
    assert said(replace(STATUS, statistics=counts), 1204.4) == [
        "orders ●  batch 88 · 1,204 rows/s · checkpoint 41 21.0s ago · published up to 80"
    ]
    fresh = replace(STATUS, barrier=None, published=None, running=False)
    assert said(fresh) == ["orders ✕  no batch yet · no checkpoint in this run yet"]
    assert said(replace(STATUS, ended=True))[0].startswith("orders ending")


def test_a_checkpoint_under_way_shows_how_far_it_is() -> None:
    pending = PendingCheckpoint(Ticket(1), "savepoint", "v2", BatchId(88), (), 97.5, 200.0)
    assert said(replace(STATUS, under_way=(under_way(pending),)))[1] == "  savepoint of batch 88: starting, 2.5s"
    pending.id, pending.phase = CheckpointId(42), Phase.COPYING
    pending.expect((ShardId("a"), ShardId("b"), ShardId("c"), ShardId("d")), 98.0)
    pending.unacknowledged.remove(ShardId("a"))
    (line,) = said(replace(STATUS, under_way=(under_way(pending),)))[1:]
    assert line == f"  savepoint 42 of batch 88: copying {'█' * 5}{'░' * 15} 1 of 4 shards, 2.5s"


def test_trouble_is_named_and_many_alarms_take_no_more_room() -> None:
    at = datetime.now(UTC)
    alarms = tuple(Alarm("orders", f"code{n}", "critical", "two\nlines", "hint", at) for n in range(5))
    counts = Statistics(consecutive_failures=4)
    lines = said(replace(STATUS, alarms=alarms, statistics=counts, restarts=2))
    assert lines[0].endswith("4 failed in a row · 2 restarts")
    assert lines[1:] == [*(f"  critical code{n}: two lines" for n in range(3)), "  and 2 more alarms"]


class Query:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    @property
    def lastProgress(self) -> Any:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (None, None),
        (Query(None), None),
        (Query({"processedRowsPerSecond": 12.5}), 12.5),
        (Query({}), None),
        (Query(ConnectionRefusedError("the JVM is gone")), None),
    ],
)
def test_spark_is_asked_for_its_rows_and_may_not_answer(query: Any, rows: float | None) -> None:
    assert rows_per_second(query) == rows


ON_A_TERMINAL = """
import sys, threading
from dataclasses import replace
from holdfast.cli.logs import log_to_standard_error
from holdfast.cli.run_screen import RunScreen
from holdfast.job_log import log
from tests.unit.test_run_screen import STATUS

painted, hung = threading.Event(), threading.Event()

class Job:
    query = None
    looks = 0
    def status(self):
        self.looks += 1
        if self.looks == 3:
            painted.set()
        if self.looks > 3 and "hang" in sys.argv:
            hung.set()
            threading.Event().wait()
        return replace(STATUS, barrier=self.looks)

log_to_standard_error()
screen = RunScreen(every_s=0.05)
with screen.watch(Job()):
    painted.wait()
    log.info("a line of the log")
    log.info("could not open /srv/%s", "long/" * 30)
    with screen.bytes("restoring", 10) as advance:
        advance(10)
    if "hang" in sys.argv:
        hung.wait()
sys.stderr.write("the end\\n")
"""


@pytest.mark.parametrize("how", ["", "hang"])
def test_on_a_terminal_log_lines_stay_above_it_and_it_is_gone_at_the_end(how: str) -> None:
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL, how], stdin=slave, stdout=slave, stderr=slave, env=environment
    ) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                read = os.read(master, 65536)
            except OSError:
                break
            text += read
        assert process.wait() == 0
    os.close(master)
    plain = ESCAPES.sub("", text.decode()).replace("\r", "\n")
    assert "batch 1 ·" in plain, plain
    assert "batch 3 ·" in plain, plain
    line = next(line for line in plain.splitlines() if "a line of the log" in line)
    assert line.startswith("20"), "it begins with its time, on a line of its own"
    assert "could not open /srv/" + "long/" * 30 in plain, "a path can be copied"
    assert plain.rstrip().endswith("the end")
    assert b"\x1b[?25h" in text, "the cursor is back"
