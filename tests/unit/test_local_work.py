"""Work directories on this host: which ones a run removes, and which it must not touch."""

from pathlib import Path

import pytest

from holdfast.identifiers import FencingEpoch, JobName
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.ports import RunDirectory
from holdfast.runtime.work_marker import WorkMarker
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.factory import work_directory
from tests.unit.churning_runs import ChurningRun, ManualClock


def test_a_run_removes_the_directories_of_earlier_runs_and_nothing_of_newer_ones(tmp_path: Path) -> None:
    workplace = JobFolder(
        work_directory(tmp_path), WorkMarker(job=JobName("orders"), home="file:///home", lineage="lineage")
    )
    root = tmp_path / "orders"
    for name in ("3-1", "3-2", ".5-1.restoring-77-0", "9-1", "9-2", "12-1", ".12-2.restoring-78-0", "somebody's"):
        (root / name).mkdir()
    workplace.fresh(FencingEpoch(9))
    keep = workplace.fresh(FencingEpoch(9))
    assert keep.location == str(root / "9-4")
    (root / "9-5").mkdir()
    workplace.clean(keep)
    left = {path.name for path in root.iterdir() if path.is_dir()}
    assert left == {"9-4", "9-5", "12-1", ".12-2.restoring-78-0", "somebody's"}


def test_a_directory_that_was_set_aside_stays(tmp_path: Path) -> None:
    workplace = JobFolder(
        work_directory(tmp_path), WorkMarker(job=JobName("orders"), home="file:///home", lineage="lineage")
    )
    bad = workplace.fresh(FencingEpoch(1))
    bad.set_aside("unreadable")
    workplace.clean(workplace.fresh(FencingEpoch(2)))
    assert Path(bad.location).is_dir()


def test_a_batch_that_the_old_query_commits_at_the_last_moment_is_resumed_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output would be taken for that of a batch which comes again."""
    (tmp_path / "home").mkdir()
    first = ChurningRun(tmp_path / "home", tmp_path / "work", ManualClock())
    first.batches(2)
    adopt = JobFolder.adopt

    def adopt_late(self: JobFolder, previous: RunDirectory, epoch: FencingEpoch) -> RunDirectory:
        first.query.batch()
        return adopt(self, previous, epoch)

    monkeypatch.setattr(JobFolder, "adopt", adopt_late)
    second = ChurningRun(tmp_path / "home", tmp_path / "work", first.clock, seed=1)
    assert newest_barrier(work_directory(second.query.directory)) == 2
    assert second.runtime._life.resumed.barrier == 2
