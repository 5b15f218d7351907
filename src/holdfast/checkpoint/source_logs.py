"""The log of a file source: which entries it must have for the offsets of a batch. Pure.

    offsets/<batch>          {"logOffset": k} on the line of the source
    sources/<n>/<k>          the input files of entry k
    sources/<n>/<k>.compact  those of every entry up to k

Spark takes input files that no entry names for new ones. So with a log that lacks its newest entry, Spark would
silently read those files again.
"""

from collections.abc import Collection, Iterator

import msgspec


class _FileOffset(msgspec.Struct):
    logOffset: int  # Spark's name


class _FileRead(msgspec.Struct):
    path: str
    batchId: int  # Spark's name for the number of the entry


_DECODER = msgspec.json.Decoder(_FileOffset)
_READ_DECODER = msgspec.json.Decoder(_FileRead)


def missing_entry(offsets: bytes, paths: Collection[str]) -> str | None:
    """The path of an entry that a source's log lacks; None when every log is complete."""
    for source, newest in file_sources(offsets):
        for number in range(newest, -1, -1):
            path = f"sources/{source}/{number}"
            if f"{path}.compact" in paths:
                break
            if path not in paths:
                return path
    return None


def file_sources(offsets: bytes) -> Iterator[tuple[str, int]]:
    """Each file source that the offsets speak of, with the newest entry of its log that they need."""
    version, _, *lines = (*offsets.decode(errors="replace").splitlines(), "", "")
    for position, line in enumerate(lines):
        name, offset = (str(position), line) if version != "v2" else line.split(":", 1) if ":" in line else ("", line)
        newest = newest_entry(offset)
        if newest is not None:  # else another kind of source, or none
            yield name, newest


def newest_entry(offset: str) -> int | None:
    """That the offset of a file source needs; None for that of another kind of source."""
    try:
        return _DECODER.decode(offset).logOffset
    except msgspec.DecodeError:
        return None


def files_read(entry: bytes) -> Iterator[tuple[int, str]]:
    """The files that an entry of the log names, as URLs, with the number of the entry that they came with."""
    for line in entry.decode(errors="replace").splitlines()[1:]:
        try:
            found = _READ_DECODER.decode(line)
        except msgspec.DecodeError:
            continue
        yield found.batchId, found.path
