"""The page over a home with 200 jobs and 100,000 checkpoints, against Spark's page of a query and Flink's page of
checkpoints: time to the first contents on the screen, bytes and requests. `python -m bench.page [--flink VERSION]`

Each page is opened several times in a real Chromium with an empty cache, in turns: a machine that is busy is busy for
all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.cli.dashboard.command import serving
from holdfast.cli.dashboard.guard import Guard
from holdfast.repository.entries import Requests
from tests.dashboard.webdriver import Browser, browser
from tests.stores.processes import free_port
from tests.unit.job_histories import History

_JOBS, _CHECKPOINTS = 200, 500
_BATCHES = 500
"""As many as a job here has checkpoints. Spark keeps the numbers of 100 for its page, unless it is told otherwise."""
_TURNS = 5
_LIMIT_S = 300.0

PAINTED = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SETTLED = """return performance.getEntriesByName('first-contentful-paint').length > 0
  && document.body.innerText.includes(arguments[0]) && performance.now()"""
BYTES = """return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .reduce((sum, each) => sum + each.transferSize, 0)"""
REQUESTS = "return 1 + performance.getEntriesByType('resource').length"


@dataclass(frozen=True)
class Site:
    name: str
    url: str
    shows: str
    """A text that is there when the page shows its data."""


@dataclass(frozen=True)
class Load:
    painted_ms: float
    shown_ms: float
    size: int
    requests: int


def large_home(home: Path) -> None:
    """One job is written entry by entry; the others are copies of its files."""
    history = History(home, "job-0", start=datetime.now(UTC) - timedelta(minutes=_CHECKPOINTS))
    history.run(interval_s=60.0)
    for id in range(1, _CHECKPOINTS + 1):
        requests = Requests(put=12, get=4, list=1, delete=2, bytes_out=1, bytes_in=1, seconds=60.0)
        history.complete(id, batch=id * 10, requests=requests)
        history.wait(58.8)
    history.now = datetime.now(UTC)
    history.beat()
    for number in range(1, _JOBS):
        shutil.copytree(home / "job-0", home / f"job-{number}", copy_function=os.link)


@contextmanager
def spark_page() -> Iterator[Site]:
    from pyspark.sql import SparkSession

    port = free_port()
    made = SparkSession.builder.master("local[2]").config("spark.ui.port", port)
    settings = {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.ui.retainedProgressUpdates": str(_BATCHES),
    }
    for name, value in settings.items():
        made = made.config(name, value)
    session = made.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    rows = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    query = rows.writeStream.format("noop").start()
    try:
        _until(lambda: (query.lastProgress or {}).get("batchId", 0) >= _BATCHES)
        url = f"http://127.0.0.1:{port}/StreamingQuery/statistics/?id={query.runId}"
        yield Site(f"Spark's page of a query, {_BATCHES} batches", url, "Input Rate")
    finally:
        query.stop()
        session.stop()


@contextmanager
def flink_page(flink_version: str, place: Path) -> Iterator[Site]:
    from tests.doctor.real.flink_runs import Flink

    port = free_port()
    flink = Flink(flink_version, place / "flink")
    log = place / "flink.log"
    directory = f"file://{place / 'flink-checkpoints'}"
    settings: dict[str, object] = {"rest.bind-port": port, "execution.checkpointing.dir": directory}
    with flink.job(log, **settings):
        base = f"http://127.0.0.1:{port}"
        job: list[str] = []

        def completed() -> bool:
            try:
                job[:] = [each["id"] for each in _json(f"{base}/jobs")["jobs"]]
                counts = _json(f"{base}/jobs/{job[0]}/checkpoints")["counts"]
            except (OSError, IndexError, KeyError):
                return False
            return bool(counts["completed"] >= 20)

        _until(completed)
        url = f"{base}/#/job/running/{job[0]}/checkpoints"
        yield Site(f"Flink {flink_version}'s page of checkpoints, 20 and more of one job", url, "Checkpoint")


def load(driven: Browser, site: Site) -> Load:
    driven.open("about:blank")
    driven.devtools("Network.clearBrowserCache", {})
    driven.open(site.url)
    shown = driven.run(SETTLED, site.shows)
    ends = time.monotonic() + _LIMIT_S
    while not shown:
        assert time.monotonic() < ends, f"{site.name} does not show {site.shows!r}"
        time.sleep(0.02)
        shown = driven.run(SETTLED, site.shows)
    return Load(driven.run(PAINTED), shown, driven.run(BYTES), driven.run(REQUESTS))


def _json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def _until(reached: Any) -> None:
    ends = time.monotonic() + _LIMIT_S
    while not reached():
        assert time.monotonic() < ends
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page")
    parser.add_argument("--flink", metavar="VERSION", help="Also Flink's page; 300 MB are fetched once.")
    given = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as scratch, ExitStack() as stack:
        place = Path(scratch)
        large_home(place / "home")
        driven = stack.enter_context(browser(place))
        port = stack.enter_context(serving(f"file://{place / 'home'}", 0, "127.0.0.1", Guard(frozenset())))
        began = time.monotonic()
        _until(lambda: _ready(port))
        console.print(f"first reading of the home: {time.monotonic() - began:.1f} s")
        base = f"http://127.0.0.1:{port}"
        sites = [
            Site(f"holdfast, {_JOBS} jobs, {_JOBS * _CHECKPOINTS:,} checkpoints: jobs", f"{base}/", "job-199"),
            Site("the same: a job, 120 checkpoints drawn", f"{base}/jobs/job-7", "Events"),
            Site("the same: a job, 480 checkpoints drawn", f"{base}/jobs/job-8?last=480", "Events"),
            Site("the same: a checkpoint", f"{base}/jobs/job-7/checkpoints/500", "Phases"),
            stack.enter_context(spark_page()),
        ]
        if given.flink:
            try:
                sites.append(stack.enter_context(flink_page(given.flink, place)))
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                console.print(f"Flink's page could not be had: {error!r}")
        loads: dict[str, list[Load]] = {site.name: [] for site in sites}
        for _ in range(_TURNS):
            for site in sites:
                loads[site.name].append(load(driven, site))
        table = Table("page", title=f"median of {_TURNS}, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")
        for head in ("first paint", "data shown", "bytes", "requests"):
            table.add_column(head, justify="right")
        for name, taken in loads.items():
            painted, shown = (median(getattr(each, what) for each in taken) for what in ("painted_ms", "shown_ms"))
            size, requests = (median(getattr(each, what) for each in taken) for what in ("size", "requests"))
            row = (f"{painted:,.0f} ms", f"{shown:,.0f} ms", f"{size / 1000:,.0f} kB", f"{requests:.0f}")
            table.add_row(name, *row)
        console.print(table)


def _ready(port: int) -> bool:
    try:
        return len(_json(f"http://127.0.0.1:{port}/api/v1/jobs")["jobs"]) == _JOBS
    except OSError:
        return False


if __name__ == "__main__":
    main()
