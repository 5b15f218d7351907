import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSettings
from holdfast.sinks import Delta, Files, parse_sink
from holdfast.sinks.delta_log import NOTE, published_files
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


def note(published: int, files: dict[int, int] | None = None, *, rewound: bool = False) -> dict[str, object]:
    content: dict[str, object] = {"app": "me", "published": published}
    if files is not None:
        content["files"] = {str(batch): count for batch, count in files.items()}
    if rewound:
        content["rewound"] = True
    return {"version": 0, NOTE: content}


def test_foreign_commits_say_nothing_of_published_files() -> None:
    history = [{"version": 3}, {"version": 2, NOTE: "text"}, {"version": 1, NOTE: {"app": "other", "published": 0}}]
    assert published_files(history, "me", 0) == ({}, False)


@given(st.lists(st.tuples(st.booleans(), st.integers(-1, 12)), max_size=12), st.integers(-1, 12))
def test_published_files_are_those_shown_and_not_taken_back(moves: list[tuple[bool, int]], after: int) -> None:
    """Replays publishes and rewinds forwards, and compares with what is read backwards from the history."""
    published, live, history = -1, dict[int, int](), list[dict[str, object]]()
    for number, (forwards, target) in enumerate(moves):
        if forwards and target > published:
            added = dict.fromkeys(range(published + 1, target + 1), number + 1)
            live |= added
            history.insert(0, note(target, added))
            published = target
        elif not forwards and target < published:
            live = {batch: count for batch, count in live.items() if batch <= target}
            history.insert(0, note(target, rewound=True))
            published = target
    expected = {batch: count for batch, count in live.items() if batch > after}
    assert published_files(history, "me", after)[0] == expected
