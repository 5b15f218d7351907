"""The driver dies exactly between two steps, of every pair there is; each next life recovers from it and dies at the
next point. At the end the output is exact."""

from pathlib import Path

import pytest

from tests.end_to_end.harness import Pipeline
from tests.torture import TORTURE

COMPLETING = [
    "batch.begin",
    "batch.staged",
    "batch.ledger",
    "checkpoint.begin",
    "checkpoint.begun",
    "checkpoint.planned",
    "checkpoint.copied",
    "checkpoint.acknowledged",
    "checkpoint.manifest",
    "checkpoint.journal",
    "publish.begin",
    "publish.done",
]
RECOVERING = ["run.claimed", "recovery.directory", "recovery.fenced", "recovery.aligned"]


@pytest.mark.parametrize("sink", ["delta", pytest.param("files", marks=pytest.mark.long)])
def test_dying_between_any_two_steps(tmp_path: Path, sink: str) -> None:
    # Half of the points for each sink, shifted by one: together they are all covered, with and without the directory.
    points = [f"{name}:2" for name in COMPLETING] + [f"{name}:1" for name in RECOVERING]
    chosen = points[0::2] if sink == "delta" else points[1::2]
    pipeline = Pipeline(tmp_path, files=3 * len(chosen), sink=sink)
    for number, point in enumerate(chosen):
        code, last = pipeline.start(crash_at=point).end()
        assert code == -9, f"{point}: exit {code}, {last}; see {pipeline.log}"
        pipeline.require_nothing_wrong()
        if number % 2:
            pipeline.wipe_work()
    pipeline.finish()
    pipeline.require_exact()


@pytest.mark.parametrize("sink", ["delta", "files"] if TORTURE else ["delta"])
def test_a_crash_between_journal_and_publish_loses_and_doubles_nothing(tmp_path: Path, sink: str) -> None:
    """Also without the disk: the checkpoint in the journal is published by the next run from what it carries."""
    pipeline = Pipeline(tmp_path, files=12, sink=sink)
    assert pipeline.start(crash_at="checkpoint.journal:3").end()[0] == -9
    in_journal = pipeline.state().restorable()[0]
    before = pipeline.visible()
    pipeline.wipe_work()

    recovered = pipeline.start(interval="1h")
    recovered.wait_for("step recovery.aligned")
    after = pipeline.visible()
    recovered.kill()

    assert pipeline.state().restorable()[0].id == in_journal.id
    assert set(before) <= set(after)
    pipeline.require_nothing_wrong()
    pipeline.finish()
    pipeline.require_exact()
