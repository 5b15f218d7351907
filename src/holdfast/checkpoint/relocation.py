"""The absolute paths that Spark writes into a checkpoint directory, rewritten for another place. Pure.

    state/<op>/_metadata/v2/<batch>   version; JSON with `stateSchemaFilePaths`, such as
                                      file:/old/place/state/<op>/_stateSchema/<store>/<batch>_<id>

Operators whose state schema may evolve have them (`transformWithState`; joins in their newest format). Spark opens
these files by that path when a query resumes. What precedes `/state/<op>/_stateSchema/` is the place where
the directory was; it need not be known.

No other file of a checkpoint names a place in it. The log of a file source names input files, which have not moved.
"""

import re
from typing import Any

import msgspec

_DESCRIPTION = re.compile(r"state/\d+/_metadata/v\d+/\d+")
_WITHIN = re.compile(r".*(/state/\d+/_stateSchema/.*)", re.DOTALL)


_DECODER = msgspec.json.Decoder()


def names_places(path: str) -> bool:
    """Whether the file at this path, relative to the directory, has bytes that depend on where the directory is."""
    return _DESCRIPTION.fullmatch(path) is not None


def relocated(data: bytes, root: str) -> bytes:
    """The bytes that such a file has in a directory at `root`, which begins with a scheme, as Spark writes it.

    Bytes that cannot be parsed stay as they are: Spark then reports the error.
    """
    version, newline, body = data.partition(b"\n")
    try:
        description = _DECODER.decode(body)
        for store in description["stateStoreInfo"]:
            store["stateSchemaFilePaths"] = [_moved(path, root) for path in store["stateSchemaFilePaths"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return data
    return version + newline + msgspec.json.encode(description)


def _moved(path: Any, root: str) -> str:
    found = _WITHIN.fullmatch(path)
    return f"{root}{found[1]}" if found else str(path)
