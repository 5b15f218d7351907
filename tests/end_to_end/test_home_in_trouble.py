"""The home's disk is really full, or really read-only, while a pipeline runs: it keeps running, and nothing is lost.

The home is a small file system of its own, which only root may mount.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.coordination.coordinator import FAILING
from holdfast.coordination.reasons import FailureReason
from tests.end_to_end.harness import Pipeline


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(tmp_path, files=80)
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("trouble", [Full(), ReadOnly()], ids=["full", "read-only"])
def test_the_pipeline_runs_on_and_the_first_checkpoint_after_healing_completes(
    pipeline: Pipeline, trouble: Trouble
) -> None:
    driver = pipeline.start(tolerable_failures=0)
    driver.wait_for("step publish.done", times=2)

    trouble.begin(pipeline.home)
    driver.wait_for(f"alarm {FAILING} on")
    driver.wait_for("step written", times=3)
    before = pipeline.state()
    trouble.end(pipeline.home)
    driver.wait_for(f"alarm {FAILING} over")
    driver.wait_for("step publish.done")
    pipeline.stop(driver)

    after = pipeline.state()
    failures = [entry.failure.reason for entry in after.failed if entry.failure.counted]
    assert set(failures) == {trouble.reason.value}
    assert not after.restarts, "the query was not touched"
    assert len(after.completed) > len(before.completed)
    pipeline.finish()
    pipeline.require_exact()
