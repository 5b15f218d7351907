"""Rules for every test."""

import os
import tempfile
import uuid
from collections.abc import Iterator

import pytest

from tests import leaks, short_lived_jvm

OF_THE_PERSON = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "HOLDFAST_HOME", "HOLDFAST_JOB", "HOLDFAST_DEBUG")
"""What whoever runs the tests may have set for a terminal or a job of their own."""


def pytest_configure(config: pytest.Config) -> None:
    for name in OF_THE_PERSON:
        os.environ.pop(name, None)
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first process makes the archive of classes, which takes a while; the others do without Spark meanwhile."""
    order = {"cluster": 0, "simulation": 1, "doctor": 2}
    items.sort(key=lambda item: order.get(item.path.parent.name, len(order)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Where everything must be there (CI), a test that is skipped for want of something has failed."""
    report: pytest.TestReport = yield
    if report.skipped and os.environ.get("HOLDFAST_REQUIRE_SERVERS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report
