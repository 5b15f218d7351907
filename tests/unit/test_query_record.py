"""What Spark's files and the record beside them say of a query."""

import errno
import os
import struct
from pathlib import Path

import msgspec
import pytest

from holdfast.checkpoint.layout import WorkFile, plan_snapshot
from holdfast.checkpoint.query_facts import CHANGELOG, FORMAT, Column, Operator, QueryFacts, Source, StateStore
from holdfast.checkpoint.spark_files import NotUnderstood, read_offsets, read_operator, read_schema, state_format_of
from holdfast.identifiers import BatchId
from holdfast.workdir.factory import work_directory
from holdfast.workdir.query_record import held_facts, write_record

FACTS = QueryFacts("4.3.0", "append", {CHANGELOG: "true"}, (Source("files", "/in"),), ())


def utf(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def chunks(*texts: str) -> bytes:
    return struct.pack(">i", len(texts)) + b"".join(map(utf, texts))


def fields(**types: object) -> str:
    listed = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return msgspec.json.encode({"type": "struct", "fields": listed}).decode()


INTEGER, LONG = fields(key="integer"), fields(sum="long")


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        ('{"logOffset":3}', "files"),
        ('{"orders":{"0":5,"1":7}}', "kafka"),
        ('{"sourceVersion":1,"reservoirId":"x"}', "delta"),
        ('{"offset":3,"timestamp":9}', None),
        ("17", None),
        ("-", None),
    ],
)
def test_an_offset_betrays_its_source(offset: str, kind: str | None) -> None:
    found = read_offsets(f'v1\n{{"conf":{{"a":"b"}}}}\n{offset}'.encode())
    assert (found.conf, found.sources) == ({"a": "b"}, (Source(kind),))


def test_offsets_by_name() -> None:
    assert read_offsets(b'v2\n{}\n0:{"logOffset":3}').sources == (Source("files"),)
    assert read_offsets(b'v2\n{}\norders:{"logOffset":3}').sources == (Source("files", name="orders"),)


@pytest.mark.parametrize(
    ("commit", "version"),
    [
        (b'v1\n{"nextBatchWatermarkMs":0}', "1"),
        (b'v2\n{"stateUniqueIds":{"0":[["a"]]}}', "2"),
        (b"v3\n{}", "1"),
        (b'v3\n{"stateUniqueIds":{}}', "2"),
    ],
)
def test_the_commit_tells_the_state_format(commit: bytes, version: str) -> None:
    assert state_format_of(commit) == version


@pytest.mark.parametrize(
    "data",
    [
        utf("v1") + utf(INTEGER) + utf(LONG),
        utf("v2") + chunks(INTEGER) + chunks(LONG[:9], LONG[9:]),
    ],
)
def test_schema_of_one_store(data: bytes) -> None:
    assert read_schema("s", data) == [StateStore("s", (Column("key", "integer"),), (Column("sum", "long"),))]


def test_schema_of_column_families_and_nested_types() -> None:
    window = {"type": "struct", "fields": [{"name": "start", "type": "timestamp"}]}
    array = {"type": "array", "elementType": window}
    value = fields(list=array, map={"type": "map", "keyType": "string", "valueType": "long"})
    family = utf("$total") + b"\0\0" + chunks(fields(window=window)) + b"\0\1" + chunks(value) + chunks("{}", "") * 2
    (store,) = read_schema("default", utf("v3") + struct.pack(">i", 1) + family)
    assert store.name == "default.$total"
    assert store.key == (Column("window", "struct<timestamp>"), Column("window.start", "timestamp"))
    assert store.value == (Column("list", "array<struct<timestamp>>"), Column("map", "map<string,long>"))


def test_names_beyond_the_basic_plane() -> None:
    """Java writes them as two halves of three bytes each."""
    halves = INTEGER.replace("key", "\ud83d\ude80").encode("utf-8", "surrogatepass")
    data = utf("v2") + struct.pack(">iH", 1, len(halves)) + halves + chunks(LONG)
    assert read_schema("s", data)[0].key == (Column("🚀", "integer"),)


@pytest.mark.parametrize("data", [b"", utf("v9"), utf("v2") + chunks(INTEGER), utf("v2") + chunks("{", "}")])
def test_a_schema_that_is_not_understood(data: bytes) -> None:
    with pytest.raises(NotUnderstood):
        read_schema("s", data)


def operator_metadata(version: str, *stores: dict[str, object]) -> bytes:
    info = {"operatorInfo": {"operatorId": 1, "operatorName": "dedupe"}, "stateStoreInfo": stores}
    return version.encode() + b"\n" + msgspec.json.encode(info)


def test_schemas_are_found_where_spark_puts_them() -> None:
    schema = utf("v2") + chunks(INTEGER) + chunks(LONG)
    files = dict.fromkeys(
        (
            "state/1/0/_metadata/schema",
            "state/1/0/left/_metadata/schema",
            "state/1/_stateSchema/default/0_a",
        ),
        schema,
    )
    named = operator_metadata("v1", {"storeName": "default"}, {"storeName": "left"})
    stores = read_operator("state/1", named, files.__getitem__).stores
    assert [store.name for store in stores or ()] == ["default", "left"]
    moved = operator_metadata(
        "v2", {"storeName": "default", "stateSchemaFilePaths": ["file:/was/elsewhere/state/1/_stateSchema/default/0_a"]}
    )
    assert read_operator("state/1", moved, files.__getitem__).name == "dedupe"


class Work:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.commit(0)

    def write(self, path: str, data: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def commit(self, batch: int) -> None:
        self.write("metadata", b"{}")
        self.write(f"offsets/{batch}", b'v1\n{"conf":{"spark.sql.shuffle.partitions":"7"}}\n{"logOffset":0}')
        self.write(f"commits/{batch}", b"v1\n{}")

    def facts(self, barrier: int = 0) -> QueryFacts:
        return held_facts(work_directory(self.root), BatchId(barrier))

    def has_state(self, key: str) -> None:
        self.write("state/0/_metadata/metadata", operator_metadata("v1", {"storeName": "default"}))
        self.write("state/0/0/_metadata/schema", utf("v2") + chunks(fields(**{key: "integer"})) + chunks(LONG))


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def test_without_a_record_spark_files_say_what_they_can(work: Work) -> None:
    assert work.facts() == QueryFacts(
        conf={"spark.sql.shuffle.partitions": "7", FORMAT: "1"}, sources=(Source("files"),), operators=()
    )


def test_the_record_adds_what_spark_does_not_keep(work: Work) -> None:
    write_record(work_directory(work.root), BatchId(0), FACTS)
    facts = work.facts()
    assert (facts.spark, facts.sources, facts.conf[CHANGELOG]) == ("4.3.0", FACTS.sources, "true")


def test_a_record_counts_from_its_batch_on(work: Work) -> None:
    """A query that was started and never committed a batch has not made the checkpoint its own."""
    write_record(work_directory(work.root), BatchId(0), FACTS)
    other = msgspec.structs.replace(FACTS, sources=(Source("files", "/elsewhere"),))
    write_record(work_directory(work.root), BatchId(1), other)
    assert work.facts(0).sources == FACTS.sources
    work.commit(1)
    assert work.facts(1).sources == other.sources
    write_record(work_directory(work.root), BatchId(1), FACTS)
    assert work.facts(1).sources == FACTS.sources


def test_a_record_is_replaced_not_rewritten_and_only_when_it_changes(work: Work) -> None:
    write_record(work_directory(work.root), BatchId(0), FACTS)
    linked = work.root / "linked"
    os.link(work.root / "query" / "0.json", linked)
    write_record(work_directory(work.root), BatchId(5), FACTS)
    assert [path.name for path in (work.root / "query").iterdir()] == ["0.json"]
    before = linked.read_bytes()
    write_record(work_directory(work.root), BatchId(0), msgspec.structs.replace(FACTS, spark="5.0.0"))
    assert linked.read_bytes() == before


def test_offsets_outrank_a_record_with_another_number_of_sources(work: Work) -> None:
    write_record(
        work_directory(work.root), BatchId(0), msgspec.structs.replace(FACTS, sources=(Source("rate"), Source("rate")))
    )
    assert work.facts().sources == (Source("files"),)


def test_names_that_spark_does_not_write_again_come_from_the_record(work: Work) -> None:
    """After a forced change of names, the same query is no longer a changed one."""
    work.has_state("old")
    store = StateStore("default", (Column("new", "integer"),), (Column("sum", "long"),))
    recorded = Operator(1, "dedupe", (store,), ("new",))
    write_record(work_directory(work.root), BatchId(0), msgspec.structs.replace(FACTS, operators=(recorded,)))
    assert work.facts().operators == (recorded,)
    other_type = StateStore("default", (Column("new", "long"),), (Column("sum", "long"),))
    write_record(
        work_directory(work.root),
        BatchId(0),
        msgspec.structs.replace(FACTS, operators=(Operator(1, "dedupe", (other_type,)),)),
    )
    (operator,) = work.facts().operators or ()
    assert operator.stores
    assert operator.stores[0].key == (Column("old", "integer"),)


def test_state_that_is_not_understood_is_not_known(work: Work) -> None:
    work.write("state/0/_metadata/metadata", b"?")
    assert work.facts().operators is None


def test_the_record_belongs_to_the_checkpoint(work: Work) -> None:
    write_record(work_directory(work.root), BatchId(0), FACTS)
    write_record(work_directory(work.root), BatchId(1), msgspec.structs.replace(FACTS, spark="5.0.0"))
    seen = [
        WorkFile(str(path.relative_to(work.root)), path.stat().st_size, "0")
        for path in work.root.rglob("*")
        if path.is_file()
    ]
    plan = plan_snapshot(BatchId(0), seen, lambda path: (work.root / path).read_bytes(), lambda path: ())
    assert {"query/0.json"} == {file.path for file in plan.files() if file.path.startswith("query/")}


@pytest.mark.parametrize("name", ["query/1.json", "offsets/0", "commits/0"])
def test_what_cannot_be_read_says_nothing_of_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A record that an I/O error hides was "no record": a query that does not fit went on from the checkpoint."""
    write_record(work_directory(tmp_path), BatchId(1), FACTS)
    for folder in ("offsets", "commits"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_bytes(b"v1\n{}")
    read = Path.read_bytes

    def failing(path: Path) -> bytes:
        if path == tmp_path / name:
            raise OSError(errno.EIO, "Input/output error")
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", failing)
    with pytest.raises(OSError, match="Input/output error"):
        held_facts(work_directory(tmp_path), BatchId(0 if name != "query/1.json" else 1))
