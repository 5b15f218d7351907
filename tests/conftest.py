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


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several processes (`-n`), tests that share what is costly to make stay in one of them."""
    for item in items:
        folder, file = item.path.parent.name, item.path.name
        if folder in ("spark", "stores"):
            item.add_marker(pytest.mark.xdist_group(folder))
        elif folder == "end_to_end" and file in ("test_demo.py", "test_wrong_input.py"):
            item.add_marker(pytest.mark.xdist_group(file))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    """Where everything must be there (CI), a test that is skipped for want of something has failed."""
    report: pytest.TestReport = yield
    if report.skipped and os.environ.get("HOLDFAST_REQUIRE_SERVERS") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report
