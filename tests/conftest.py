"""Rules for every test."""

import os
from collections.abc import Iterator

import pytest

from tests import short_lived_jvm


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
