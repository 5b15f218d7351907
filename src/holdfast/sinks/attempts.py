"""Tracks attempts to stage a batch, and removes their directories."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.identifiers import BatchId


class Attempts:
    """What this run has staged and not published. Keeps few copies of a batch that is staged repeatedly.

    A failed attempt is removed at once. Of the complete ones the newest counts, and the one before it stays until the
    batch is published: on HDFS a ledger entry can be written late, and would name that one. Recovery discards what
    older runs left and calls `forget`.
    """

    def __init__(self) -> None:
        self._whole: dict[BatchId, list[Path]] = {}
        self._failed: list[Path] = []

    @contextmanager
    def staging(self, batch_id: BatchId, directory: Path) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._failed.append(directory)
            remove_all(self._failed)  # earlier ones again: a late task may have written there
            raise
        whole = self._whole.setdefault(batch_id, [])
        remove_all(whole[:-1])
        whole[:-1] = []
        whole.append(directory)

    def superseded(self, upto: BatchId) -> list[Path]:
        """Superseded attempts of published batches. The caller proves that none of them was published."""
        remove_all(self._failed)
        self._failed.clear()
        published = [batch_id for batch_id in self._whole if batch_id <= upto]
        return [path for batch_id in published for path in self._whole.pop(batch_id)[:-1]]

    def forget(self) -> None:
        self._whole.clear()
        self._failed.clear()


def remove_all(directories: Iterable[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
