"""The ledger: which files each batch staged, kept in the Spark work directory as `ledger/<batch_id>.json`.

It lies there so that it travels with the checkpoint: whoever restores one can publish exactly what it contains.
An entry is complete or absent. Spark ignores the folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from holdfast.errors import Conflict, Corrupt, NewerFormat
from holdfast.identifiers import BatchId
from holdfast.sinks.durable import flush, storage_errors, write_atomically
from holdfast.sinks.protocol import LEDGER_FORMAT, StagedBatch
from holdfast.storage.retrying import Patience, repeated
from holdfast.storage.work_path import WorkPath

FOLDER = "ledger"


def require_unbroken(published: BatchId | None, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
    """Refuse to publish up to `upto` when a batch after `published` has no entry: its rows would be lost in silence."""
    first = 0 if published is None else published + 1
    entries = {batch.batch_id for batch in ledger}
    missing = [batch for batch in range(first, upto + 1) if batch not in entries]
    if missing:
        shown, anew = "nothing", ""
        if published is not None:
            shown = f"batches up to {published}"
            anew = f"or make these batches anew: --from-checkpoint, one at batch {published} or before; "
        raise Conflict(
            f"could not publish up to batch {upto}: the sink shows {shown}, and the ledger has no entry of "
            f"{_runs(missing)}; what these batches wrote cannot be found",
            hint=f"put the sink back to what the last run left; {anew}or go on without their rows: --accept-sink",
        )


def _runs(batches: list[int]) -> str:
    """Ascending numbers, those in a row as `first to last`."""
    known = set(batches)
    starts = [batch for batch in batches if batch - 1 not in known]
    ends = [batch for batch in batches if batch + 1 not in known]
    return "batch " + ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))


def write(directory: WorkPath, staged: StagedBatch) -> None:
    """Record a staged batch, durably; replaces an earlier entry of the same batch."""
    if isinstance(directory, Path):
        _write(directory, staged)
    else:
        # Spark's own client waits for a NameNode, too. A try that takes effect late writes what another staging of the
        # same batch is as good as: its input is the same.
        repeated(lambda: _write(directory, staged), Patience())


def _write(directory: WorkPath, staged: StagedBatch) -> None:
    path = directory / FOLDER / f"{staged.batch_id}.json"
    with storage_errors(f"record batch {staged.batch_id} in the ledger {path.parent}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, msgspec.json.encode(staged))
        flush(directory)


def read(directory: WorkPath, upto: BatchId | None = None) -> tuple[StagedBatch, ...]:
    """The entries up to `upto` (all of them for None), oldest batch first."""
    with storage_errors(f"read the ledger {directory / FOLDER}"):
        paths = [(batch_id, path) for batch_id, path in _entries(directory) if upto is None or batch_id <= upto]
        return tuple(_decoded(path, batch_id) for batch_id, path in sorted(paths, key=lambda entry: entry[0]))


def prune(directory: WorkPath, published: BatchId) -> None:
    """Forget what readers already see."""
    _remove(directory, lambda batch_id: batch_id <= published)


def remove_after(directory: WorkPath, batch: BatchId | None) -> None:
    """Forget what was staged after `batch` (everything for None)."""
    _remove(directory, lambda batch_id: batch is None or batch_id > batch)


def _entries(directory: WorkPath) -> Iterator[tuple[BatchId, WorkPath]]:
    folder = directory / FOLDER
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix == ".json" and path.stem.isdecimal():
            yield BatchId(int(path.stem)), path


class _LedgerFormat(msgspec.Struct):
    format: int = LEDGER_FORMAT


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(StagedBatch)
_FORMAT_DECODER = msgspec.json.Decoder(_LedgerFormat)


def decoded(data: bytes, where: str) -> StagedBatch:
    try:
        if (version := _FORMAT_DECODER.decode(data).format) > LEDGER_FORMAT:
            raise NewerFormat.of_format(f"the ledger entry {where}", version, LEDGER_FORMAT)
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"could not read the ledger entry {where}: {error}") from error


def _decoded(path: WorkPath, batch_id: BatchId) -> StagedBatch:
    staged = decoded(path.read_bytes(), str(path))
    if staged.batch_id != batch_id:
        raise Corrupt(f"could not read the ledger entry {path}: it holds batch {staged.batch_id}")
    return staged


def _remove(directory: WorkPath, unwanted: Callable[[BatchId], bool]) -> None:
    with storage_errors(f"shorten the ledger {directory / FOLDER}"):
        for batch_id, path in list(_entries(directory)):
            if unwanted(batch_id):
                path.unlink(missing_ok=True)
