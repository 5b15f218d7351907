"""Checkpoints are damaged and the disk is lost: readers keep all that they have seen, all the time."""

import threading
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.repository.entries import CheckpointCompleted
from tests.end_to_end.harness import Pipeline, Row

PUBLISHED = 6


class Reader(threading.Thread):
    """Polls the table, and remembers whether a row that it saw was gone."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._pipeline = pipeline
        self._over = threading.Event()
        self.looks = 0
        self.lost: set[Row] = set()

    def run(self) -> None:
        seen: set[Row] = set()
        while not self._over.wait(0.1):
            now = set(self._pipeline.visible())
            self.lost |= seen - now
            seen, self.looks = now, self.looks + 1

    def end(self) -> None:
        self._over.set()
        self.join()


@pytest.mark.parametrize("sink", ["delta", pytest.param("files", marks=pytest.mark.long)])
def test_no_reader_loses_a_row_when_newer_checkpoints_are_damaged(tmp_path: Path, sink: str) -> None:
    pipeline = Pipeline(tmp_path, files=45, sink=sink)
    driver = pipeline.start(retained=20, files_per_batch=4)
    driver.wait_for("step publish.done", times=PUBLISHED)
    driver.kill()
    pipeline.require_nothing_wrong()
    newest, *others = pipeline.state().restorable()
    oldest = others[-1]
    assert pipeline.visible(), "after the oldest one: that is of the first batch"
    for key, offset in {place_of_state(pipeline, entry, oldest) for entry in (newest, *others[:-1])}:
        flip(pipeline.home / "counts" / key, offset)
    pipeline.wipe_work()
    assert oldest.barrier_batch_id == 0

    reader = Reader(pipeline)
    reader.start()
    pipeline.finish(retained=20)
    reader.end()
    assert reader.looks > 0
    assert not reader.lost
    pipeline.require_exact()
    state = pipeline.state()
    assert newest.id in state.corrupt
    assert not state.abandoned, "the line of batches goes on"
    count = newest.barrier_batch_id - oldest.barrier_batch_id
    assert f"repeating {count} batches, from {oldest.barrier_batch_id + 1}" in pipeline.log.read_text()


def place_of_state(pipeline: Pipeline, entry: CheckpointCompleted, oldest: CheckpointCompleted) -> tuple[str, int]:
    """Of a file that the oldest checkpoint does not need."""
    shared = {file.key for file in manifest_of(pipeline, oldest).files()}
    files = manifest_of(pipeline, entry).files()
    state = next(file for file in files if file.path.startswith("state/") and file.key not in shared and file.size)
    return state.key, state.offset


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def manifest_of(pipeline: Pipeline, entry: CheckpointCompleted) -> Manifest:
    data = (pipeline.home / "counts" / manifest_key(entry.manifest)).read_bytes()
    return decode_manifest(data, entry.manifest)
