"""The files of a Spark checkpoint directory that a plan consists of: read when a batch is planned, written back when it
is repeated.

    metadata                 the query's id
    offsets/<n>              what batch n reads
    sources/<i>/<k>          what source i needs to know besides: the files of entry k, when the source began
    sources/<i>/<k>.compact  entry k of a file source, and all before it: every tenth is written so, and read so
    commits/<n>              batch n is done; it has the watermark of batch n+1
"""

import re
from collections.abc import Iterator
from typing import Protocol

import msgspec

from holdfast.checkpoint.source_logs import file_sources
from holdfast.errors import Corrupt
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch
from holdfast.plans.plan import Plan

_ENTRY = re.compile(r"(\d+)(\.compact)?", re.ASCII)


class Directory(Protocol):
    """What is needed of a checkpoint directory. Paths are relative to it."""

    def names(self, folder: str = "") -> list[str]:
        """None when it is not there."""

    def read(self, path: str) -> bytes: ...

    def write_atomic(self, path: str, data: bytes) -> None: ...

    def remove(self, path: str) -> None:
        """Harmless when it is not there."""


class _Entry(msgspec.Struct):
    """A line of a file source's log."""

    batchId: int


class _Batch(msgspec.Struct):
    """The second line of `offsets/<n>`."""

    batchWatermarkMs: int


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_ENTRY_DECODER = msgspec.json.Decoder(_Entry)
_BATCH_DECODER = msgspec.json.Decoder(_Batch)
_COMMIT_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SourceLogs:
    """Which entries of the sources' logs are new with each batch."""

    def __init__(self, directory: Directory, after: BatchId | None) -> None:
        """`after`: the batch before the first one that is asked about, None for none."""
        self._directory = directory
        self._known = set() if after is None else set(_upto(directory, after))

    def new(self) -> dict[str, str]:
        """By path below `sources/`. What was told once is not told again."""
        found: dict[str, str] = {}
        for path, number in _paths(self._directory):
            if (path, number) in self._known:
                continue
            self._known.add((path, number))
            text = self._directory.read(f"sources/{path}").decode()
            found[path] = of_entry(text, number) if path.endswith(".compact") else text
        return found


def planned(
    directory: Directory, logs: SourceLogs, batch: BatchId, offsets: bytes, epoch: FencingEpoch, attempt: AttemptId
) -> Plan:
    """The plan of a batch whose offsets Spark is about to write."""
    return Plan(
        batch_id=batch,
        fencing_epoch=epoch,
        attempt=attempt,
        metadata=directory.read("metadata").decode(),
        offsets=offsets.decode(),
        sources=logs.new(),
    )


def put_in_place(directory: Directory, plan: Plan) -> None:
    """So that Spark, started there, runs the batch. The offsets come last: without them nothing was planned.

    An entry of a source's log may stand there already: the directory had begun to plan the batch, perhaps otherwise.
    """
    for path, text in sorted(plan.sources.items(), key=lambda item: _number(item[0])):
        folder, _, name = path.rpartition("/")
        standing = _standing_entry(directory, path) if name in directory.names(f"sources/{folder}") else None
        if standing == text:
            continue
        whole = _compacted(directory, folder, text, _number(path)) if name.endswith(".compact") else text
        directory.remove(f"sources/{folder}/.{name}.crc")
        directory.write_atomic(f"sources/{path}", whole.encode())
    if "metadata" not in directory.names():
        directory.write_atomic("metadata", plan.metadata.encode())
    # The checksum of what stood there before would be wrong.
    directory.remove(f"offsets/.{plan.batch_id}.crc")
    directory.write_atomic(f"offsets/{plan.batch_id}", plan.offsets.encode())


def commit(directory: Directory, plan: Plan, following: Plan) -> None:
    """As Spark does when a batch is done; only for a query without state. `following` is the plan of the next batch."""
    version, values = "v1", {}
    names = directory.names("commits")
    if names:
        newest = max((name for name in names if name.isdigit()), key=int)
        version, _, body = directory.read(f"commits/{newest}").decode().partition("\n")
        values = _COMMIT_DECODER.decode(body or "{}")
    values["nextBatchWatermarkMs"] = msgspec.Raw(str(_watermark(following)).encode())
    directory.write_atomic(f"commits/{plan.batch_id}", version.encode() + b"\n" + msgspec.json.encode(values))


def take_back_commit(directory: Directory, batch: BatchId) -> None:
    """So that Spark, started there, runs the batch again."""
    directory.remove(f"commits/.{batch}.crc")
    directory.remove(f"commits/{batch}")


def standing_offsets(directory: Directory, batch: BatchId) -> bytes | None:
    """What the directory itself has planned for the batch."""
    return directory.read(f"offsets/{batch}") if str(batch) in directory.names("offsets") else None


def is_stateful(directory: Directory) -> bool:
    """By what the batches before have left."""
    return bool(directory.names("state"))


def has_state(directory: Directory) -> bool:
    """Whether a batch has written state. A batch that the sink skips leaves at most a description of it."""
    return any(name.isdigit() for operator in directory.names("state") for name in directory.names(f"state/{operator}"))


def _standing_entry(directory: Directory, path: str) -> str:
    text = directory.read(f"sources/{path}").decode()
    return of_entry(text, _number(path)) if path.endswith(".compact") else text


def _paths(directory: Directory) -> Iterator[tuple[str, int]]:
    """Entries of all sources with their numbers, in ascending order."""
    for source in sorted(directory.names("sources")):
        entries = [(int(match[1]), name) for name in directory.names(f"sources/{source}") if (match := _entry(name))]
        yield from ((f"{source}/{name}", number) for number, name in sorted(entries))


def _entry(name: str) -> re.Match[str] | None:
    return _ENTRY.fullmatch(name)


def _upto(directory: Directory, batch: BatchId) -> Iterator[tuple[str, int]]:
    """What belongs to batches up to this one. A file source may have made an entry for a batch that was never planned:
    that one is new with the next batch."""
    reached = dict(file_sources(directory.read(f"offsets/{batch}")))
    for path, number in _paths(directory):
        if number <= reached.get(path.partition("/")[0], number):
            yield path, number


def entry_number(name: str) -> int | None:
    """Of an entry of a source's log; None when it is none."""
    match = _entry(name)
    return int(match[1]) if match else None


def _number(path: str) -> int:
    number = entry_number(path.rpartition("/")[2])
    if number is None:
        raise Corrupt(f"could not put sources/{path} in place: it is not an entry of a source's log")
    return number


def of_entry(text: str, number: int) -> str:
    """Only entry `number` of a compacted log, and all lines that do not say which entry they belong to."""
    version, *lines = text.splitlines()
    return "\n".join([version, *(line for line in lines if _batch_of(line) in (number, None))])


def _batch_of(line: str) -> int | None:
    try:
        return _ENTRY_DECODER.decode(line).batchId
    except msgspec.DecodeError:
        return None


def _compacted(directory: Directory, source: str, text: str, number: int) -> str:
    """All entries up to `number`, of which `text` is the last."""
    version, *last = text.splitlines()
    lines: list[str] = []
    names = directory.names(f"sources/{source}")
    if f"{number}.compact" in names:
        standing = directory.read(f"sources/{source}/{number}.compact").decode().splitlines()[1:]
        return "\n".join([version, *(line for line in standing if _batch_of(line) != number), *last])
    for name in sorted(names, key=lambda name: (entry_number(name) or 0, name)):
        match = _entry(name)
        if match is None or int(match[1]) >= number:
            continue
        held = directory.read(f"sources/{source}/{name}").decode().splitlines()[1:]
        lines = held if match[2] else lines + held
    return "\n".join([version, *lines, *last])


def _watermark(plan: Plan) -> int:
    _, second, *_ = (*plan.offsets.splitlines(), "", "")
    try:
        return _BATCH_DECODER.decode(second).batchWatermarkMs
    except msgspec.DecodeError as error:
        raise Corrupt(f"could not understand the plan of batch {plan.batch_id}: {error}") from error
