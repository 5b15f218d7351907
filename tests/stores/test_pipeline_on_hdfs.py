"""The work directory on a real HDFS, written by Spark with its own client and read by holdfast with another one."""

from pathlib import Path

import pytest

from holdfast.storage.work_path import names_in, work_path
from tests.end_to_end.harness import Pipeline
from tests.stores.hdfs_server import HdfsServer


@pytest.mark.timeout(300)
def test_killed_and_wiped_the_output_is_exact(tmp_path: Path, hdfs: HdfsServer) -> None:
    pipeline = Pipeline(tmp_path, files=8, home_url=f"{hdfs.address}/homes", work_url=f"{hdfs.address}/work")

    pipeline.start(crash_at="checkpoint.journal:2").end()
    killed = pipeline.state()
    assert len(killed.completed) == 2
    pipeline.require_nothing_wrong()

    pipeline.start(crash_at="checkpoint.copied:2").end()
    pipeline.require_nothing_wrong()
    pipeline.wipe_work()

    pipeline.finish()
    pipeline.require_exact()
    assert not pipeline.work.exists(), "nothing of it is on a local disk"
    state = pipeline.state()
    assert not state.restarts
    assert len(state.completed) > 2
    (left,) = [name for name in names_in(work_path(f"{pipeline.work_url}/counts")) if name[0].isdigit()]
    assert left == f"{state.runs[-1].fencing_epoch}-1"
