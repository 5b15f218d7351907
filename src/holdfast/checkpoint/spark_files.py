"""Spark's own description of a query, from the files in its checkpoint directory. Pure: bytes in, facts out.

    offsets/N                             version, JSON with the settings that Spark keeps, one line per source
    commits/N                             version; JSON, with `stateUniqueIds` when state has checkpoint format 2
    state/<op>/_metadata/metadata         version, JSON: the operator and its stores
    state/<op>/_metadata/v2/<batch>       the same for operators whose state schema may evolve
    state/<op>/0/[<store>/]_metadata/schema   key and value schema of a store, in Java's DataOutput encoding
    state/<op>/_stateSchema/…             the same with several column families, where format v2 is used

What cannot be parsed raises `NotUnderstood`.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast.checkpoint.query_facts import Column, Operator, Source, StateStore

ReadFile = Callable[[str], bytes]


class NotUnderstood(Exception):
    pass


# --- the logs ---


class _OffsetMetadata(msgspec.Struct):
    conf: dict[str, str] = {}


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_OFFSET_DECODER = msgspec.json.Decoder(_OffsetMetadata)
_ANY_DECODER = msgspec.json.Decoder()


@dataclass(frozen=True)
class Offsets:
    conf: dict[str, str]
    sources: tuple[Source, ...]
    """Only what an offset reveals about its source."""


def read_offsets(data: bytes) -> Offsets:
    version, metadata, *offsets = _lines(data, at_least=2)
    try:
        conf = _OFFSET_DECODER.decode(metadata or "{}").conf
    except msgspec.DecodeError as error:
        raise NotUnderstood(f"the offsets' metadata: {error}") from error
    if version != "v2":
        return Offsets(conf, tuple(_source_of(line) for line in offsets))
    return Offsets(conf, tuple(_named_source_of(line) for line in offsets))


def source_offsets(data: bytes) -> tuple[tuple[str, str], ...]:
    """Of each source its name and its offset, as text. One without a name is named by its place, from 0."""
    version, _, *offsets = _lines(data, at_least=2)
    if version != "v2":
        return tuple((str(place), offset) for place, offset in enumerate(offsets))
    parts = (line.partition(":") for line in offsets)
    return tuple((name, offset) for name, _, offset in parts)


def require_log_entry(data: bytes) -> None:
    """Every entry of every kind of log is a version and lines of JSON (or no line for a source)."""
    version, *lines = _lines(data, at_least=1)
    if not (version.startswith("v") and version[1:].isdigit()):
        raise NotUnderstood(f"it begins with {version[:20]!r} instead of a version")
    for line in lines:
        if line and line != "-" and not line.partition(":")[0].isdigit():
            _require_json(line)


def require_metadata(data: bytes) -> None:
    """The query's id, without which Spark does not start, or starts another query."""
    lines = _lines(data, at_least=1)
    if not isinstance(found := _require_json(lines[0]), dict) or "id" not in found:
        raise NotUnderstood("it has no id")


def _require_json(line: str) -> Any:
    try:
        return _ANY_DECODER.decode(line)
    except msgspec.DecodeError as error:
        raise NotUnderstood(str(error)) from error


def _named_source_of(line: str) -> Source:
    name, _, offset = line.partition(":")
    found = _source_of(offset)
    # Without names of the user's own, Spark names the sources by their position.
    return found if name.isdigit() else Source(found.kind, name=name)


def _source_of(offset: str) -> Source:
    try:
        value = _ANY_DECODER.decode(offset)
    except msgspec.DecodeError:
        return Source()
    if isinstance(value, dict):
        if "logOffset" in value:
            return Source("files")
        if "reservoirId" in value:
            return Source("delta")
        if value and all(_is_partitions(part) for part in value.values()):
            return Source("kafka")
    return Source()


def _is_partitions(value: object) -> bool:
    return isinstance(value, dict) and all(k.isdigit() and isinstance(v, int) for k, v in value.items())


class _StateCommit(msgspec.Struct):
    stateUniqueIds: dict[str, Any] | None = None  # Spark's name


_COMMIT_DECODER = msgspec.json.Decoder(_StateCommit)


def state_format_of(commit: bytes) -> str:
    """The version of the state checkpoint format, which Spark reads from the newest commit too."""
    version, *body = _lines(commit, at_least=1)
    if version == "v1":
        return "1"
    try:
        ids = _COMMIT_DECODER.decode("\n".join(body) or "{}").stateUniqueIds
    except msgspec.DecodeError as error:
        raise NotUnderstood(f"the commit: {error}") from error
    return "2" if version == "v2" or ids is not None else "1"


def _lines(data: bytes, at_least: int) -> list[str]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise NotUnderstood(str(error)) from error
    if len(lines) < at_least:
        raise NotUnderstood(f"{len(lines)} lines")
    return lines


# --- the operators ---


class _OperatorInfo(msgspec.Struct):
    operatorId: int
    operatorName: str


class _StoreInfo(msgspec.Struct):
    storeName: str
    stateSchemaFilePaths: list[str] = []


class _OperatorMetadata(msgspec.Struct):
    operatorInfo: _OperatorInfo
    stateStoreInfo: list[_StoreInfo] = []


_OPERATOR_DECODER = msgspec.json.Decoder(_OperatorMetadata)


def read_operator(folder: str, metadata: bytes, read: ReadFile) -> Operator:
    """The operator in `folder`, such as "state/0". `read` gives the bytes of its schema files, by relative path."""
    _, *body = _lines(metadata, at_least=2)
    try:
        found = _OPERATOR_DECODER.decode("\n".join(body))
    except msgspec.DecodeError as error:
        raise NotUnderstood(f"the metadata of {folder}: {error}") from error
    stores = [
        store
        for info in found.stateStoreInfo
        for store in read_schema(info.storeName, read(_schema_path(folder, info)))
    ]
    return Operator(
        found.operatorInfo.operatorId,
        found.operatorInfo.operatorName,
        tuple(sorted(stores, key=lambda store: store.name)),
    )


def _schema_path(folder: str, store: _StoreInfo) -> str:
    if store.stateSchemaFilePaths:
        # Absolute, from where the directory was when it was written.
        _, _, within = store.stateSchemaFilePaths[-1].rpartition("/_stateSchema/")
        return f"{folder}/_stateSchema/{within}"
    inner = "" if store.storeName == "default" else f"{store.storeName}/"
    return f"{folder}/0/{inner}_metadata/schema"


# --- schemas ---


def read_schema(store: str, data: bytes) -> list[StateStore]:
    """The stores, one per column family, that a schema file describes."""
    reader = _JavaReader(data)
    try:
        version = reader.text()
        if version == "v1":
            return [StateStore(store, _columns(reader.text()), _columns(reader.text()))]
        if version == "v2":
            return [StateStore(store, _columns(reader.chunks()), _columns(reader.chunks()))]
        if version == "v3":
            return [_family(store, reader) for _ in range(reader.number(4))]
    except (struct.error, UnicodeError, msgspec.DecodeError, KeyError, TypeError) as error:
        raise NotUnderstood(f"the schema of store {store}: {error}") from error
    raise NotUnderstood(f"the schema of store {store} has version {version!r}")


def _family(store: str, reader: "_JavaReader") -> StateStore:
    name = reader.text()
    reader.number(2)
    key = _columns(reader.chunks())
    reader.number(2)
    value = _columns(reader.chunks())
    reader.chunks()  # how keys are encoded
    reader.chunks()  # the schema of keys within a map
    return StateStore(f"{store}.{name}", key, value)


class _JavaReader:
    """What Java's DataOutputStream wrote."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        (value,) = struct.unpack_from({2: ">h", 4: ">i"}[size], self._data, self._at)
        self._at += size
        return int(value)

    def text(self) -> str:
        (size,) = struct.unpack_from(">H", self._data, self._at)
        start = self._at + 2
        self._at = start + size
        if self._at > len(self._data):
            raise struct.error("the file ends early")
        # Java writes the two halves of a rare character apart.
        return self._data[start : self._at].decode("utf-8", "surrogatepass")

    def chunks(self) -> str:
        text = "".join(self.text() for _ in range(self.number(4)))
        return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _columns(schema: str) -> tuple[Column, ...]:
    return tuple(_flat(_ANY_DECODER.decode(schema)["fields"], ""))


def _flat(fields: list[dict[str, Any]], prefix: str) -> list[Column]:
    columns = []
    for field in fields:
        name, kind = f"{prefix}{field['name']}", field["type"]
        columns.append(Column(name, _type_name(kind)))
        if isinstance(kind, dict) and kind["type"] == "struct":
            columns += _flat(kind["fields"], f"{name}.")
    return columns


def _type_name(kind: Any) -> str:
    """Spark compares types without the names in them, so there are none here either."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return f"struct<{','.join(_type_name(field['type']) for field in kind['fields'])}>"
    if kind["type"] == "array":
        return f"array<{_type_name(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_type_name(kind['keyType'])},{_type_name(kind['valueType'])}>"
    return str(kind.get("class", kind["type"]))
