"""The ledger: which files each batch staged, kept in the Spark work directory as `ledger/<batch_id>.json`.

So it is part of every checkpoint: a run that restores one can publish exactly what it contains. An entry is complete or
absent. Spark ignores the folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec
from blake3 import blake3

from holdfast.errors import Conflict, Corrupt, NewerFormat
from holdfast.identifiers import BatchId
from holdfast.sinks.protocol import LEDGER_FORMAT, StagedBatch
from holdfast.storage.durable import storage_errors
from holdfast.storage.retrying import Patience, repeated
from holdfast.workdir.interface import WorkDirectory

FOLDER = "ledger"


def require_unbroken(published: BatchId | None, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> None:
    """Refuse to publish up to `upto` when a batch after `published` has no entry: its rows would be lost silently."""
    missing = missing_entries(published, upto, ledger)
    if missing:
        shown, anew = "nothing", ""
        if published is not None:
            shown = f"batches up to {published}"
            anew = f"or make these batches anew: --from-checkpoint, one at batch {published} or before; "
        raise Conflict(
            f"could not publish up to batch {upto}: the sink shows {shown}, and the ledger has no entry of "
            f"{shown_runs(missing)}; what these batches wrote cannot be found",
            hint=f"put the sink back to what the last run left; {anew}or go on without their rows: --accept-sink",
        )


def missing_entries(published: BatchId | None, upto: BatchId, ledger: tuple[StagedBatch, ...]) -> list[int]:
    """Batches after `published`, up to `upto`, that the ledger does not have."""
    entries = {batch.batch_id for batch in ledger}
    return [batch for batch in range(0 if published is None else published + 1, upto + 1) if batch not in entries]


def shown_runs(batches: list[int]) -> str:
    """Ascending numbers, those in a row as `first to last`."""
    known = set(batches)
    starts = [batch for batch in batches if batch - 1 not in known]
    ends = [batch for batch in batches if batch + 1 not in known]
    return "batch " + ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in zip(starts, ends, strict=True))


def write(directory: WorkDirectory, staged: StagedBatch) -> None:
    """Record a staged batch, durably; replaces an earlier entry of the same batch."""
    if directory.abilities.remote:
        # Retried, as Spark's own client does for a NameNode. A delayed attempt is harmless: it names an earlier staging
        # of the same batch, with the same input.
        repeated(lambda: _write(directory, staged), Patience())
    else:
        _write(directory, staged)


def _write(directory: WorkDirectory, staged: StagedBatch) -> None:
    with storage_errors(f"record batch {staged.batch_id} in the ledger {_shown(directory)}"):
        directory.write_atomic(_path(staged.batch_id), _sealed(msgspec.json.encode(staged)))


def read(directory: WorkDirectory, upto: BatchId | None = None) -> tuple[StagedBatch, ...]:
    """The entries up to `upto` (all of them for None), oldest batch first."""
    with storage_errors(f"read the ledger {_shown(directory)}"):
        wanted = sorted(batch_id for batch_id in _entries(directory) if upto is None or batch_id <= upto)
        return tuple(_decoded(directory, batch_id) for batch_id in wanted)


def prune(directory: WorkDirectory, published: BatchId) -> None:
    """Remove entries of published batches."""
    _remove(directory, lambda batch_id: batch_id <= published)


def remove_after(directory: WorkDirectory, batch: BatchId | None) -> None:
    """Remove entries of batches after `batch` (all for None)."""
    _remove(directory, lambda batch_id: batch is None or batch_id > batch)


def _entries(directory: WorkDirectory) -> Iterator[BatchId]:
    for name in directory.names(FOLDER):
        stem, _, suffix = name.rpartition(".")
        if suffix == "json" and stem.isdecimal():
            yield BatchId(int(stem))


def _path(batch_id: BatchId) -> str:
    return f"{FOLDER}/{batch_id}.json"


def _shown(directory: WorkDirectory) -> str:
    return f"{directory.location}/{FOLDER}"


class _LedgerFormat(msgspec.Struct):
    format: int = LEDGER_FORMAT


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(StagedBatch)
_FORMAT_DECODER = msgspec.json.Decoder(_LedgerFormat)
_FIELDS_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


# The last field, as in an entry of the journal: the BLAKE3 of the bytes without it. Nothing else proves an entry in a
# work directory, and it decides what readers see.
_SEAL = re.compile(rb',"checksum":"([0-9a-f]{64})"\}\Z')


def _sealed(body: bytes) -> bytes:
    return b'%b,"checksum":"%b"}' % (body[:-1], blake3(body).hexdigest().encode())


def decoded(data: bytes, where: str) -> StagedBatch:
    sealed = _SEAL.search(data)
    if sealed is not None and blake3(data[: sealed.start()] + b"}").hexdigest() != sealed[1].decode():
        raise _damaged(where, "its bytes do not match its checksum")
    try:
        if (version := _FORMAT_DECODER.decode(data).format) > LEDGER_FORMAT:
            raise NewerFormat.of_format(f"the ledger entry {where}", version, LEDGER_FORMAT)
        unknown = _FIELDS_DECODER.decode(data).keys() - set(StagedBatch.__struct_fields__)
        if sealed is None and unknown:  # entries of the first versions have no checksum and no unknown field
            raise _damaged(where, f"it has no checksum, but a field {min(unknown)!r}")
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(where, str(error)) from error


def _damaged(where: str, why: str) -> Corrupt:
    return Corrupt(f"could not read the ledger entry {where}: {why}")


def _decoded(directory: WorkDirectory, batch_id: BatchId) -> StagedBatch:
    path = _path(batch_id)
    staged = decoded(directory.read(path), f"{directory.location}/{path}")
    if staged.batch_id != batch_id:
        raise _damaged(f"{directory.location}/{path}", f"it holds batch {staged.batch_id}")
    return staged


def _remove(directory: WorkDirectory, unwanted: Callable[[BatchId], bool]) -> None:
    with storage_errors(f"shorten the ledger {_shown(directory)}"):
        for batch_id in list(_entries(directory)):
            if unwanted(batch_id):
                directory.remove(_path(batch_id))
