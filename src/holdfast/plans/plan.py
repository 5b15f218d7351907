"""The plan of one batch: what Spark decided that the batch reads, with everything that gives the decision a meaning."""

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.repository.sealing import opened, sealed

FORMAT = 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    batch_id: BatchId
    fencing_epoch: FencingEpoch
    """The run that planned it."""
    attempt: AttemptId
    """Unique to one attempt to write it."""
    metadata: str
    """Spark's file of that name: the id of the query, by which sinks know the batch."""
    offsets: str
    """Spark's `offsets/<batch_id>`."""
    sources: dict[str, str] = {}
    """Files below Spark's `sources/` that are new with this batch, by their path there. Of a `<k>.compact`, which
    repeats all entries before it, only those of entry k."""


class _Format(msgspec.Struct):
    format: int


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_FORMAT_DECODER = msgspec.json.Decoder(_Format)
_DECODER = msgspec.json.Decoder(Plan)


def encode_plan(plan: Plan) -> bytes:
    return sealed(msgspec.json.encode(plan))


def format_of(data: bytes) -> int:
    """The version of the format of a document with plans. Raises `msgspec.DecodeError`."""
    return _FORMAT_DECODER.decode(data).format


def decode_plan(key: str, data: bytes) -> Plan:
    """Raises `Corrupt` when it is not what was written, `NewerFormat` when a newer version wrote it."""
    proof = opened(data)
    if proof is None or digest_of(proof[0]) != proof[1]:
        raise Corrupt(f"could not read the plan {key}: its bytes do not match its checksum")
    try:
        if (version := format_of(data)) > FORMAT:
            raise NewerFormat.of_format(f"the plan {key}", version, FORMAT)
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"could not read the plan {key}: {error}") from error
