from pathlib import Path

import pytest

from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks import StagedBatch, StagedFile, ledger
from holdfast.workdir.factory import work_directory


def staged(batch: int, *paths: str, epoch: int = 1) -> StagedBatch:
    files = tuple(StagedFile(path, 10, 3, '{"numRecords":3}') for path in paths)
    return StagedBatch(BatchId(batch), FencingEpoch(epoch), files)


def test_entries_come_back_whole_and_in_order_of_batch(tmp_path: Path) -> None:
    entries = [staged(10, "b", "c"), staged(9, "a"), staged(0)]
    for entry in entries:
        ledger.write(work_directory(tmp_path), entry)
    assert ledger.read(work_directory(tmp_path)) == (entries[2], entries[1], entries[0])
    assert ledger.read(work_directory(tmp_path), BatchId(9)) == (entries[2], entries[1])


def test_a_batch_staged_again_replaces_its_entry(tmp_path: Path) -> None:
    ledger.write(work_directory(tmp_path), staged(4, "old"))
    ledger.write(work_directory(tmp_path), staged(4, "new", epoch=2))
    assert ledger.read(work_directory(tmp_path)) == (staged(4, "new", epoch=2),)


def test_an_absent_ledger_is_empty(tmp_path: Path) -> None:
    assert ledger.read(work_directory(tmp_path)) == ()
    ledger.prune(work_directory(tmp_path), BatchId(3))
    ledger.remove_after(work_directory(tmp_path), BatchId(3))


def test_prune_forgets_up_to_a_batch_and_remove_after_beyond_it(tmp_path: Path) -> None:
    for batch in range(5):
        ledger.write(work_directory(tmp_path), staged(batch))
    ledger.prune(work_directory(tmp_path), BatchId(1))
    ledger.remove_after(work_directory(tmp_path), BatchId(3))
    assert [entry.batch_id for entry in ledger.read(work_directory(tmp_path))] == [2, 3]
    ledger.remove_after(work_directory(tmp_path), None)
    assert ledger.read(work_directory(tmp_path)) == ()


def test_what_a_dying_writer_left_is_no_entry(tmp_path: Path) -> None:
    ledger.write(work_directory(tmp_path), staged(0))
    (tmp_path / "ledger" / ".1.json.tmp").write_text("{")
    assert ledger.read(work_directory(tmp_path)) == (staged(0),)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"batch_id":7}', b'{"batch_id":8,"fencing_epoch":1,"files":[]}'])
def test_a_damaged_entry_is_corrupt_and_named(tmp_path: Path, damage: bytes) -> None:
    ledger.write(work_directory(tmp_path), staged(7))
    (tmp_path / "ledger" / "7.json").write_bytes(damage)
    with pytest.raises(Corrupt, match=r"7\.json"):
        ledger.read(work_directory(tmp_path))
