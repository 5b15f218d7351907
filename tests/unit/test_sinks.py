import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.sinks import Delta, Files, parse_sink
from holdfast.sinks.schemas import differences, fields_of, nullable


@pytest.mark.parametrize(
    ("text", "kind", "shown"),
    [
        ("delta:/data/orders", Delta, "delta:/data/orders"),
        ("delta:file:///data/a%20b", Delta, "delta:/data/a b"),
        ("files:/data/orders", Files, "files:/data/orders"),
        ("parquet:out", Files, f"files:{Path.cwd() / 'out'}"),
    ],
)
def test_a_sink_from_text(text: str, kind: type, shown: str) -> None:
    sink = parse_sink(text)
    assert isinstance(sink, kind)
    assert sink.describe() == shown


@pytest.mark.parametrize("text", ["", "delta", "delta:", "kafka:orders", "/data/orders", ":x"])
def test_an_unknown_sink_names_the_known_ones(text: str) -> None:
    with pytest.raises(InvalidSettings, match=r"delta:PATH, files:PATH, parquet:PATH"):
        parse_sink(text)


@pytest.mark.parametrize("place", ["", " ", "s3://bucket/orders", "file://host/x", 7, None])
def test_a_place_that_is_no_local_path_is_refused(place: object) -> None:
    for kind in (Delta, Files):
        with pytest.raises(InvalidSettings):
            kind(place)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", ["", [], [""], 3, {"a": 1}])
def test_partition_columns_must_be_names(columns: object) -> None:
    with pytest.raises(InvalidSettings, match="partition_by"):
        Delta("/data/orders", partition_by=columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sink", "missing"), [("Delta", "deltalake"), ("Files", "pyarrow.parquet")])
def test_without_its_package_a_sink_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, sink: str, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InvalidSettings, match=rf"pip install 'holdfast-spark\[{sink.lower()}\]'"):
        {"Delta": Delta, "Files": Files}[sink]("/data/orders")


def test_importing_the_sinks_imports_no_extra() -> None:
    code = "import sys, holdfast.sinks; print(sorted({'pyspark', 'pyarrow', 'deltalake'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def schema(*fields: str) -> str:
    return '{"type":"struct","fields":[' + ",".join(fields) + "]}"


def field(name: str, kind: str, *, null: bool = True) -> str:
    return f'{{"name":"{name}","type":{kind},"nullable":{str(null).lower()},"metadata":{{"spark.watermarkDelayMs":5}}}}'


ARRAY = '{"type":"array","elementType":"long","containsNull":%s}'


def test_only_what_matters_makes_schemas_differ() -> None:
    ours = fields_of(schema(field("a", '"long"', null=False), field("b", ARRAY % "false")))
    theirs = fields_of(schema(field("b", ARRAY % "true"), field("a", '"long"')))
    assert differences(ours, theirs) == []
    assert differences(theirs, ours) == ["a: the table refuses nulls, the query may have them"]


def test_a_new_table_takes_nulls_and_no_notes_of_spark() -> None:
    (made,) = fields_of(nullable(schema(field("a", '"timestamp"', null=False))))
    assert made == {"name": "a", "type": "timestamp", "nullable": True, "metadata": {}}
