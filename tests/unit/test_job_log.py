"""Which job a line of the log is about, in a process that runs several."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.identifiers import JobName
from holdfast.job_log import about, about_the_same, log
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.lanes import ThreadLanes
from holdfast.storage.local import LocalStore
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="holdfast")


def test_a_line_begins_with_the_job_and_its_record_has_it(caplog: pytest.LogCaptureFixture) -> None:
    with about("orders"):
        log.info("checkpoint %s completed", 7, extra={"differences": ()})
    assert caplog.messages == ["orders: checkpoint 7 completed"]
    (record,) = caplog.records
    assert (record.job, record.differences) == ("orders", ())  # type: ignore[attr-defined]
    assert record.filename == Path(__file__).name, "where it was said"


def test_what_is_about_no_job_names_none(caplog: pytest.LogCaptureFixture) -> None:
    with about("orders"):
        pass
    log.warning("100 % of nothing")
    assert caplog.messages == ["100 % of nothing"]


def test_threads_that_are_started_for_a_job_speak_of_it(caplog: pytest.LogCaptureFixture) -> None:
    def live(job: str) -> None:
        with about(job):
            lanes = ThreadLanes(copying=2)
            done = threading.Barrier(3)
            for _ in range(2):
                lanes.submit("copy", lambda: (log.info("copied"), done.wait(PATIENCE))[0])
            done.wait(PATIENCE)
            lanes.close()
            last = threading.Thread(target=about_the_same(log.info), args=("over",))
        last.start()
        last.join(PATIENCE)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(live, ["orders", "clicks"]))
    assert sorted(caplog.messages) == [
        *["clicks: copied"] * 2,
        "clicks: over",
        *["orders: copied"] * 2,
        "orders: over",
    ]


def test_maintenance_speaks_of_its_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = LocalStore(tmp_path, within="orders")
    with maintenance(JobName("orders"), f"file://{tmp_path}", store, "mend"):
        log.info("mending")
    assert "orders: mending" in caplog.messages
