"""Rules for every test."""

import gc
import os
import signal
import tempfile
import uuid
from collections.abc import Iterator

import pytest
from xdist.scheduler import LoadFileScheduling

from tests import leaks, short_lived_jvm

OF_THE_PERSON = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "HOLDFAST_HOME", "HOLDFAST_JOB", "HOLDFAST_DEBUG")
"""What whoever runs the tests may have set for a terminal or a job of their own."""
SHARE_A_PROCESS = {
    "tests/stores": "servers",
    "tests/spark": "a Spark session",
    "tests/trust/test_ask_then_decide.py": "a Spark session",
    "tests/trust/test_rows_are_counted.py": "a Spark session",
    "tests/trust/test_sink_against_ledger_running.py": "a Spark session",
}
"""What one process starts once, each of three would start for itself."""


def pytest_configure(config: pytest.Config) -> None:
    for name in OF_THE_PERSON:
        os.environ.pop(name, None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # ignored below nohup and `make test &`, also by children
    os.environ[leaks.RUN] = uuid.uuid4().hex
    config.pluginmanager.register(leaks.WhatIsShared())


@pytest.fixture(scope="session", autouse=True)
def temporary_files_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """So that what is left there was left by a test."""
    kept = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("t"))
    yield
    tempfile.tempdir = None
    del os.environ["TMPDIR"]
    if kept is not None:
        os.environ["TMPDIR"] = kept


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind(temporary_files_of_our_own: None, request: pytest.FixtureRequest) -> Iterator[None]:
    before = leaks.held()
    yield
    left = leaks.left_since(before)
    leaks.share(left)  # told once
    assert not left, f"{request.node.nodeid} left behind:\n" + "\n".join(f"{one}: {what}" for one, what in left.items())


@pytest.fixture(scope="session")
def short_lived_jvms() -> Iterator[None]:
    """For every JVM that this process or a child of it starts."""
    os.environ["JDK_JAVA_OPTIONS"] = short_lived_jvm.options()
    yield
    del os.environ["JDK_JAVA_OPTIONS"]


class TogetherByWhatTheyShare(LoadFileScheduling):
    """A file stays in one process, and so do files that share something."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return SHARE_A_PROCESS.get(file) or SHARE_A_PROCESS.get(file.rpartition("/")[0]) or file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    return TogetherByWhatTheyShare(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first. The process of a Spark session makes the archive of classes meanwhile."""
    order = {"stores": 0, "spark": 1, "simulation": 2, "end_to_end": 3, "cluster": 4, "trust": 5, "doctor": 6}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(order)))


def pytest_collection_finish() -> None:
    """All that was collected lives to the end: whoever collects garbage, after each module at least, passes over it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Where everything must be there (CI), a test that is skipped for want of something has failed."""
    report: pytest.TestReport = yield
    if report.skipped and os.environ.get("HOLDFAST_REQUIRE_SERVERS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report
