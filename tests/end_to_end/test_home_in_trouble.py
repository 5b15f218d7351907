"""The home's disk is really full, or really read-only, while a pipeline runs: it keeps running, and nothing is lost.

The home is a small file system of its own, which only root may mount.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.coordination.coordinator import FAILING
from holdfast.coordination.failure_reasons import FailureReason
from tests.end_to_end.harness import Driver, Pipeline


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(tmp_path, files=60)
    try:
        mount("-t", "tmpfs", "-o", "size=24m", "tmpfs", str(pipeline.home))
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    try:
        yield pipeline
    finally:
        subprocess.run(["umount", "--lazy", str(pipeline.home)], check=True)


def fill(home: Path) -> Path:
    """Leave no byte."""
    ballast = home / "ballast"
    with ballast.open("wb", buffering=0) as file:
        block = b"\0" * 4096
        try:
            while file.write(block):
                pass
        except OSError:
            return ballast


class Trouble:
    reason: FailureReason

    def begin(self, home: Path) -> None: ...

    def end(self, home: Path) -> None: ...


class Full(Trouble):
    reason = FailureReason.STORAGE_FULL

    def begin(self, home: Path) -> None:
        self._ballast = fill(home)

    def end(self, home: Path) -> None:
        self._ballast.unlink()


class ReadOnly(Trouble):
    reason = FailureReason.STORAGE_DENIED

    def begin(self, home: Path) -> None:
        mount("-o", "remount,ro", str(home))

    def end(self, home: Path) -> None:
        mount("-o", "remount,rw", str(home))


def pass_through(trouble: Trouble, pipeline: Pipeline, driver: Driver) -> None:
    """The trouble comes, the pipeline runs on, the trouble goes, and the next checkpoint completes."""
    driver.wait_for("step publish.done", times=2)
    trouble.begin(pipeline.home)
    driver.wait_for(f"alarm {FAILING} on")
    driver.wait_for("step written", times=3)
    before = pipeline.state()
    trouble.end(pipeline.home)
    driver.wait_for(f"alarm {FAILING} over")
    driver.wait_for("step publish.done")
    assert len(pipeline.state().completed) > len(before.completed)


def require_only(reason: FailureReason, pipeline: Pipeline) -> None:
    after = pipeline.state()
    assert {entry.failure.reason for entry in after.failed if entry.failure.counted} == {reason.value}
    assert not after.restarts, "the query was not touched"


def test_a_full_home(pipeline: Pipeline) -> None:
    driver = pipeline.start(tolerable_failures=0)
    pass_through(Full(), pipeline, driver)
    pipeline.stop(driver)
    require_only(Full.reason, pipeline)
    pipeline.finish()
    pipeline.require_exact()


@pytest.mark.long
def test_a_read_only_home_and_a_run_that_ends_on_it_says_so_by_its_exit_code(pipeline: Pipeline) -> None:
    driver = pipeline.start(tolerable_failures=0, trigger="available-now")
    trouble = ReadOnly()
    pass_through(trouble, pipeline, driver)

    trouble.begin(pipeline.home)
    code, last = driver.end()
    assert code == 6, "all input is processed, but not all of it is in a checkpoint"
    assert "the last checkpoint could not be completed" in last
    assert trouble.reason.rule.hint in last
    trouble.end(pipeline.home)

    require_only(trouble.reason, pipeline)
    pipeline.finish()
    pipeline.require_exact()
