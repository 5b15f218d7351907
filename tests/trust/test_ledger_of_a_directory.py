"""R4: what a work directory's ledger says is proved, and a directory whose ledger is damaged is not gone on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks import StagedBatch, StagedFile, ledger
from holdfast.workdir.factory import work_directory
from tests.trust.jobs_with_sinks import Job
from tests.trust.jobs_with_sinks import job as job

DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "another number": lambda path: path.write_bytes(path.read_bytes().replace(b'"rows":1', b'"rows":3')),
    "deleted": lambda path: path.unlink(),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_directory_with_a_damaged_ledger_is_left_and_the_checkpoint_restored(job: Job, how: str) -> None:
    run = job.run()
    run.batches(3)
    run.query.batch()
    DAMAGE[how](run.query.directory / "ledger" / "3.json")
    job.lived(2)
    job.require_rows(5)


def test_entries_are_proved_and_those_of_the_first_versions_are_read(tmp_path: Path) -> None:
    staged = StagedBatch(BatchId(7), FencingEpoch(3), (StagedFile("a/b.parquet", 10, 2),))
    ledger.write(work_directory(tmp_path), staged)
    stored = (tmp_path / "ledger" / "7.json").read_bytes()
    assert ledger.decoded(stored, "here") == staged
    assert ledger.decoded(msgspec.json.encode(staged), "here") == staged
    for at in range(len(stored)):
        flipped = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises(Corrupt):
            ledger.decoded(flipped, "here")
