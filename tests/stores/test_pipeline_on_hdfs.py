"""The work directory on a real HDFS, written by Spark with its own client and read by holdfast with another one."""

from pathlib import Path

import pytest

from holdfast.storage.work_path import names_in, work_path
from tests.end_to_end.driver import STATE_FORMATS
from tests.end_to_end.harness import Pipeline
from tests.stores.hdfs_server import HdfsServer
from tests.torture import TORTURE

LIVES = ["checkpoint.copied:2", "batch.ledger:2", "checkpoint.journal:2", "publish.begin:1"] if TORTURE else []
FORMATS = list(STATE_FORMATS) if TORTURE else ["rocksdb-changelog"]


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("short_lived_jvms")
@pytest.mark.parametrize("state_format", FORMATS)
def test_killed_and_started_again_the_output_is_exact(tmp_path: Path, hdfs: HdfsServer, state_format: str) -> None:
    place = f"{hdfs.address}/{state_format}"
    pipeline = Pipeline(
        tmp_path,
        files=3 + 3 * len(LIVES),
        state_format=state_format,
        home_url=f"{place}/homes",
        work_url=f"{place}/work",
    )
    pipeline.start(crash_at="checkpoint.journal:1").end()
    assert len(pipeline.state().completed) == 1
    for number, moment in enumerate(LIVES):
        if number % 2:
            pipeline.wipe_work()
        pipeline.start(crash_at=moment).end()
        pipeline.require_nothing_wrong()
    pipeline.finish()
    pipeline.require_exact()

    assert not pipeline.work.exists(), "nothing of it is on a local disk"
    state = pipeline.state()
    assert not state.restarts
    left = [name for name in names_in(work_path(f"{pipeline.work_url}/counts")) if name[0].isdigit()]
    assert left == [f"{state.runs[-1].fencing_epoch}-1"], "each run has its own, and removes those before"
