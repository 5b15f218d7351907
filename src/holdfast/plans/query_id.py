"""The id of a Spark query, in the file `metadata` of its checkpoint directory: by it sinks know its batches. Pure."""

import msgspec

from holdfast.errors import Corrupt


class _Metadata(msgspec.Struct):
    id: str


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(_Metadata)


def query_id(metadata: str) -> str:
    try:
        return _DECODER.decode(metadata).id
    except msgspec.DecodeError as error:
        raise Corrupt(f"could not read the query's id in Spark's file metadata: {error}") from error
