"""The id of a Spark query, in the file `metadata` of its checkpoint directory: by it sinks know its batches. Pure.

On a new line of batches (`repository/lines.py`) ids of batches come again with other rows. So the query gets another id
there, and a sink never takes a batch of one line for one of another. The ids of a job's query have their first half in
common, by which it is known what the job has written on any line.
"""

import msgspec

from holdfast.checkpoint.manifest import digest_of
from holdfast.errors import Corrupt
from holdfast.identifiers import Sequence

_IN_COMMON = len("01234567-89ab-4def")


class _Metadata(msgspec.Struct):
    id: str


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(_Metadata)


def query_id(metadata: str) -> str:
    try:
        return _DECODER.decode(metadata).id
    except msgspec.DecodeError as error:
        raise Corrupt(f"could not read the query's id in Spark's file metadata: {error}") from error


def metadata_on_line(metadata: str, line: Sequence, lineage: str) -> str:
    """Always the same for a line: a start that dies in between changes nothing."""
    held = query_id(metadata)
    digits = digest_of(f"{lineage}/{line}".encode())
    return metadata.replace(held, f"{held[:_IN_COMMON]}-8{digits[:3]}-{digits[3:15]}")


def is_on_line(metadata: bytes, line: Sequence, lineage: str) -> bool:
    """Whether the query has the id that it gets on that line."""
    try:
        text = metadata.decode()
        return metadata_on_line(text, line, lineage) == text
    except (Corrupt, UnicodeDecodeError):
        return False


def is_of_one_job(one: str, other: str) -> bool:
    return one[:_IN_COMMON] == other[:_IN_COMMON]
