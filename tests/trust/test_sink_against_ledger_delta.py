"""R7 for Delta tables: the table is compared with what the job published, at open and at every commit."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, convert_to_deltalake, write_deltalake
from pyspark.sql.types import LongType, StringType, StructType

from holdfast.errors import Conflict, Corrupt, Fenced, HoldfastError, InvalidSettings, NewerFormat
from holdfast.identifiers import BatchId
from holdfast.sinks import Delta, SinkState
from holdfast.sinks.delta_fit import KNOWN_FEATURES
from holdfast.sinks.protocol import fingerprint
from tests.trust.delta_sink import columns, context, expected, opened, published, rows, staged, trace

Outside = Callable[[Path], None]


def restore(place: Path) -> None:
    DeltaTable(str(place)).restore(2)


def overwrite(place: Path) -> None:
    write_deltalake(str(place), pa.table({"id": [100]}), mode="overwrite")


def overwrite_a_part(place: Path) -> None:
    write_deltalake(str(place), pa.table({"id": [10]}), mode="overwrite", predicate="id = 10")


def replace(place: Path) -> None:
    DeltaTable.create(str(place), DeltaTable(str(place)).schema(), mode="overwrite")


def empty(place: Path) -> None:
    DeltaTable(str(place)).delete()


def make_anew(place: Path) -> None:
    schema = DeltaTable(str(place)).schema()
    shutil.rmtree(place / "_delta_log")
    DeltaTable.create(str(place), schema)


def delete_the_table(place: Path) -> None:
    shutil.rmtree(place / "_delta_log")


def lose_a_file(place: Path) -> None:
    next(place.glob("holdfast-*/1/1-*/*.parquet")).unlink()


@pytest.mark.parametrize(
    ("outside", "named"),
    [
        (restore, "RESTORE"),
        (overwrite, "Overwrite"),
        (overwrite_a_part, "Overwrite"),
        (replace, "replaced"),
        (empty, "DELETE"),
        (make_anew, "replaced"),
        (delete_the_table, "no table any more"),
        (lose_a_file, "not on the disk"),
    ],
)
def test_what_takes_published_rows_away_while_the_job_is_down_is_a_conflict(
    tmp_path: Path, outside: Outside, named: str
) -> None:
    published(tmp_path, 0, 1, 2)
    outside(tmp_path)
    before = trace(tmp_path)
    for refused in (lambda: opened(tmp_path, context(2)), lambda: looked(tmp_path, epoch=1)):
        with pytest.raises(Conflict, match=named) as conflict:
            refused()
        assert "--accept-sink" in str(conflict.value)
    assert trace(tmp_path) == before


def test_rows_that_were_taken_back_and_restored_are_a_conflict(tmp_path: Path) -> None:
    """As many batches are there as the ledger says, and they are those of a line that was abandoned."""
    sink = published(tmp_path, 0, 1)
    before = DeltaTable(str(tmp_path)).version()
    sink.rewind(BatchId(0))
    anew = staged(sink, 1, 1, 2)
    sink.publish(BatchId(1), anew)
    DeltaTable(str(tmp_path)).restore(before)
    for again in (sink, None):
        with pytest.raises(Conflict, match="RESTORE"):
            (again or opened(tmp_path, context(epoch=2))).publish(BatchId(2), anew)


@pytest.mark.parametrize("outside", [restore, overwrite, replace, empty, make_anew, delete_the_table])
def test_following_the_hint_the_job_goes_on_from_what_is_there(tmp_path: Path, outside: Outside) -> None:
    published(tmp_path, 0, 1, 2)
    outside(tmp_path)
    left = rows(tmp_path) if outside is not delete_the_table else []
    sink = opened(tmp_path, context(2, accept=True))
    sink.publish(BatchId(3), staged(sink, 2, 3))
    again = opened(tmp_path, context(3))
    again.publish(BatchId(4), staged(again, 3, 4))
    assert rows(tmp_path) == sorted(left + expected(3, 4))


def looked(place: Path, epoch: int = 0, lineage: str = "home-1", **options: Any) -> SinkState:
    return Delta(place, **options).look(context(epoch, lineage), None, columns())  # type: ignore[arg-type]


def delete(place: Path) -> None:
    DeltaTable(str(place)).delete("id = 10")


def update(place: Path) -> None:
    DeltaTable(str(place)).update(updates={"id": "99"}, predicate="id = 10")


def merge(place: Path) -> None:
    table = DeltaTable(str(place))
    merging = table.merge(pa.table({"id": [10]}), "s.id = t.id", source_alias="s", target_alias="t")
    merging.when_matched_delete().execute()


def optimize(place: Path) -> None:
    DeltaTable(str(place)).optimize.compact()


def vacuum(place: Path) -> None:
    optimize(place)
    DeltaTable(str(place)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def append(place: Path) -> None:
    write_deltalake(str(place), pa.table({"id": [77]}), mode="append")


def set_a_property(place: Path) -> None:
    DeltaTable(str(place)).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})


ALLOWED = [delete, update, merge, optimize, vacuum, append, set_a_property]


@pytest.mark.parametrize("outside", ALLOWED)
@pytest.mark.parametrize("running", [True, False])
def test_what_others_may_do_is_allowed_and_never_undone(tmp_path: Path, outside: Outside, running: bool) -> None:
    sink = published(tmp_path, 0, 1, 2)
    outside(tmp_path)
    left = rows(tmp_path)
    epoch = 1 if running else 2
    if not running:
        sink = opened(tmp_path, context(2))
    sink.publish(BatchId(3), staged(sink, epoch, 3))
    assert rows(tmp_path) == sorted(left + expected(3))
    for epoch in (3, 4):
        sink = opened(tmp_path, context(epoch))
        sink.publish(BatchId(epoch + 1), staged(sink, epoch, epoch + 1))
    assert rows(tmp_path) == sorted(left + expected(3, 4, 5))


@pytest.mark.parametrize("outside", [restore, overwrite, replace, empty])
def test_while_the_job_runs_its_publish_waits_and_staging_goes_on(tmp_path: Path, outside: Outside) -> None:
    sink = published(tmp_path, 0, 1, 2)
    outside(tmp_path)
    left = rows(tmp_path)
    ledger = staged(sink, 1, 3)
    for _ in range(2):
        with pytest.raises(Conflict, match="accept-sink"):
            sink.publish(BatchId(3), ledger)
        assert rows(tmp_path) == left


def test_a_table_put_back_from_an_older_copy_is_a_conflict(tmp_path: Path) -> None:
    place = tmp_path / "t"
    published(place, 0, 1)
    shutil.copytree(place, tmp_path / "backup")
    sink = opened(place, context(2))
    sink.publish(BatchId(2), staged(sink, 2, 2))
    shutil.rmtree(place / "_delta_log")
    shutil.copytree(tmp_path / "backup" / "_delta_log", place / "_delta_log")
    with pytest.raises(Conflict, match="older copy"):
        opened(place, context(3))
    append(place)
    append(place)
    with pytest.raises(Conflict, match="older copy"):
        opened(place, context(3))


def test_a_whole_older_copy_says_so_and_nothing_is_published_over_the_gap(tmp_path: Path) -> None:
    place = tmp_path / "t"
    published(place, 0, 1)
    shutil.copytree(place, tmp_path / "backup")
    sink = opened(place, context(2))
    sink.publish(BatchId(2), staged(sink, 2, 2))
    ledger = staged(sink, 2, 3)
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "backup", place)
    assert looked(place, 2) == SinkState(fingerprint("home-1"), 1, None, BatchId(1))  # type: ignore[arg-type]
    with pytest.raises(Conflict, match=r"could not publish|no longer knows"):
        sink.publish(BatchId(3), ledger)
    with pytest.raises(Conflict, match="batch 2"):
        opened(place, context(3)).publish(BatchId(3), ledger)
    assert rows(place) == expected(0, 1)


def test_a_place_that_was_emptied_knows_nothing_and_nothing_is_published_over_the_gap(tmp_path: Path) -> None:
    place = tmp_path / "t"
    published(place, 0, 1, 2)
    shutil.rmtree(place)
    assert looked(place, 1) == SinkState()
    sink = opened(place, context(2))
    with pytest.raises(Conflict, match="batch 0 to 2"):
        sink.publish(BatchId(3), staged(sink, 2, 3))


def expire(place: Path) -> None:
    """What a short log retention does."""
    DeltaTable(str(place)).create_checkpoint()
    for entry in sorted((place / "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()


def commit(place: Path, *actions: dict[str, Any]) -> None:
    """What a writer does that says nothing of itself."""
    version = DeltaTable(str(place)).version() + 1
    text = "\n".join(json.dumps(action) for action in actions)
    (place / "_delta_log" / f"{version:020d}.json").write_text(text)


def remove_a_file(place: Path) -> None:
    paths = DeltaTable(str(place)).get_add_actions().column("path").to_pylist()
    path = min(path for path in paths if path.startswith("holdfast-"))
    commit(place, {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 0}})


def test_with_the_history_expired_the_record_and_the_live_files_decide(tmp_path: Path) -> None:
    published(tmp_path, 0, 1, 2)
    append(tmp_path)
    expire(tmp_path)
    assert opened(tmp_path, context(2)).published() == 2
    remove_a_file(tmp_path)
    expire(tmp_path)
    with pytest.raises(Conflict, match="1 of 6 files that this job published are not in the table"):
        opened(tmp_path, context(3))


def test_a_compaction_that_nobody_tells_of_any_more_is_for_a_person_to_judge(tmp_path: Path) -> None:
    published(tmp_path, 0, 1, 2)
    optimize(tmp_path)
    append(tmp_path)
    expire(tmp_path)
    with pytest.raises(Conflict, match="no commit of another writer in the table's history explains it"):
        opened(tmp_path, context(2))
    sink = opened(tmp_path, context(2, accept=True))
    sink.publish(BatchId(3), staged(sink, 2, 3))
    assert rows(tmp_path) == sorted([*expected(0, 1, 2, 3), 77])


def test_a_silent_removal_is_noticed(tmp_path: Path) -> None:
    published(tmp_path, 0, 1, 2)
    remove_a_file(tmp_path)
    with pytest.raises(Conflict, match="1 of 6 files"):
        opened(tmp_path, context(2))


def metadata(place: Path, **changes: Any) -> None:
    """Another writer changes what the table is, with its id."""
    lines = [line for path in sorted((place / "_delta_log").glob("*.json")) for line in path.read_text().splitlines()]
    newest = [json.loads(line)["metaData"] for line in lines if "metaData" in json.loads(line)][-1]
    commit(place, {"metaData": {**newest, **changes}})


def with_note(place: Path, note: str, *, nullable: bool = True, kind: str = "long") -> str:
    field = {"name": "id", "type": kind, "nullable": nullable, "metadata": {note: "id > 0"} if note else {}}
    return json.dumps({"type": "struct", "fields": [field]})


READERS_TOO = {"columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "variantType", "variantType-preview"}


def new_protocol(feature: str) -> dict[str, Any]:
    reads = {"minReaderVersion": 3, "readerFeatures": [feature]} if feature in READERS_TOO else {"minReaderVersion": 1}
    return {"protocol": {**reads, "minWriterVersion": 7, "writerFeatures": [feature]}}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda place: DeltaTable(str(place)).alter.add_constraint({"positive": "id >= 0"}), "delta.constraints"),
        (lambda place: metadata(place, configuration={"delta.columnMapping.mode": "name"}), "maps column names"),
        (lambda place: metadata(place, configuration={"delta.enableRowTracking": "true"}), "tracks rows"),
        (lambda place: metadata(place, schemaString=with_note(place, "delta.invariants")), "invariant"),
        (lambda place: metadata(place, schemaString=with_note(place, "delta.generationExpression")), "generated"),
        (lambda place: metadata(place, schemaString=with_note(place, "", nullable=False)), "refuses nulls"),
        (lambda place: metadata(place, schemaString=with_note(place, "", kind="integer")), "long in the query"),
        (lambda place: commit(place, new_protocol("rowTracking")), "rowTracking"),
        (lambda place: commit(place, new_protocol("clustering")), "clustering"),
        (lambda place: commit(place, new_protocol("domainMetadata")), "domainMetadata"),
        (lambda place: commit(place, new_protocol("identityColumns")), "identityColumns"),
        (lambda place: commit(place, new_protocol("allowColumnDefaults")), "allowColumnDefaults"),
    ],
)
def test_what_another_writer_asks_between_stage_and_publish_is_met_or_nothing_is_published(
    tmp_path: Path, change: Outside, named: str
) -> None:
    sink = published(tmp_path, 0)
    ledger = staged(sink, 1, 1)
    change(tmp_path)
    version = DeltaTable(str(tmp_path)).version()
    with pytest.raises(InvalidSettings, match=named):
        sink.publish(BatchId(1), ledger)
    staged(sink, 1, 2)
    with pytest.raises(InvalidSettings, match=named):
        looked(tmp_path, 1)
    assert DeltaTable(str(tmp_path)).version() == version


@pytest.mark.parametrize("feature", sorted(KNOWN_FEATURES))
def test_a_feature_that_is_said_to_fit_can_be_written_to(tmp_path: Path, feature: str) -> None:
    sink = published(tmp_path, 0)
    commit(tmp_path, new_protocol(feature))
    sink.publish(BatchId(1), staged(sink, 1, 1))
    sink.rewind(BatchId(0))


def test_what_waits_is_published_when_the_table_fits_again(tmp_path: Path) -> None:
    sink = published(tmp_path, 0)
    ledger = staged(sink, 1, 1)
    DeltaTable(str(tmp_path)).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(InvalidSettings, match="positive"):
        sink.publish(BatchId(1), ledger)
    DeltaTable(str(tmp_path)).alter.drop_constraint("positive")
    sink.publish(BatchId(1), ledger)
    assert rows(tmp_path) == expected(0, 1)


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (columns(id=StringType()), "id: long in the query, string in the table"),
        (columns(name=LongType()), "id: the files have it, the table has not"),
    ],
)
def test_what_a_run_staged_before_query_and_table_were_changed_is_not_published(
    tmp_path: Path, schema: StructType, named: str
) -> None:
    """Both fit each other, and the user has accepted the new table: the old files fit neither."""
    ledger = staged(published(tmp_path, 0), 1, 1)
    DeltaTable.create(str(tmp_path), Schema.from_json(schema.json()), mode="overwrite")
    version = DeltaTable(str(tmp_path)).version()
    sink = opened(tmp_path, context(2, accept=True), schema)
    with pytest.raises(Conflict, match=named):
        sink.publish(BatchId(1), ledger)
    assert DeltaTable(str(tmp_path)).version() == version + 1, "only opened"


def test_what_a_run_staged_before_a_column_was_added_is_published(tmp_path: Path) -> None:
    ledger = staged(published(tmp_path, 0), 1, 1)
    wider = columns(id=LongType(), city=StringType())
    DeltaTable(str(tmp_path)).alter.add_columns([Field("city", "string")])
    opened(tmp_path, context(2), wider).publish(BatchId(1), ledger)
    assert rows(tmp_path) == expected(0, 1)


def test_a_table_that_another_writer_partitioned_gets_no_file_of_another_partitioning(tmp_path: Path) -> None:
    schema = columns(id=LongType(), city=StringType())
    sink = opened(tmp_path, context(), schema)
    ledger = staged(sink, 1, 0)
    metadata(tmp_path, partitionColumns=["city"])
    with pytest.raises(Conflict, match=r"staged for partitions by nothing, the table has city"):
        sink.publish(BatchId(0), ledger)
    metadata(tmp_path, partitionColumns=[])
    sink.publish(BatchId(0), ledger)
    assert rows(tmp_path) == expected(0)


# -- whose place is it


def plain_files(place: Path) -> None:
    place.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), place / "part-0.parquet")


def file_sink(place: Path) -> None:
    plain_files(place)
    (place / "_spark_metadata").mkdir()


def iceberg(place: Path) -> None:
    (place / "metadata").mkdir(parents=True)
    (place / "metadata" / "v1.metadata.json").write_text("{}")


@pytest.mark.parametrize(
    ("outside", "named"), [(plain_files, "part-0.parquet"), (file_sink, "Spark's file sink"), (iceberg, "Iceberg")]
)
def test_somebody_elses_place_is_refused_and_left_as_it_is(tmp_path: Path, outside: Outside, named: str) -> None:
    place = tmp_path / "t"
    outside(place)
    before = trace(place)
    for refused in (lambda: looked(place), lambda: opened(place)):
        with pytest.raises(Conflict, match=named):
            refused()
    assert trace(place) == before


def test_following_the_hint_for_plain_files_their_rows_stay(tmp_path: Path) -> None:
    place = tmp_path / "t"
    plain_files(place)
    with pytest.raises(Conflict, match="convert_to_deltalake"):
        opened(place)
    convert_to_deltalake(str(place))
    published(place, 0)
    assert rows(place) == sorted([1, 2, *expected(0)])


def test_a_look_at_nothing_leaves_nothing(tmp_path: Path) -> None:
    assert looked(tmp_path / "t") == SinkState()
    assert not (tmp_path / "t").exists()
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [5]}))
    before = trace(tmp_path)
    assert looked(tmp_path / "t") == SinkState()
    assert trace(tmp_path) == before
    published(tmp_path / "t", 0)
    assert rows(tmp_path / "t") == [0, 1, 5]


def test_another_life_is_refused_and_a_new_one_fences_the_old(tmp_path: Path) -> None:
    old = published(tmp_path, 0, 1, who=context(7))
    before = trace(tmp_path)
    assert looked(tmp_path, lineage="").life == fingerprint("home-1")
    with pytest.raises(Conflict, match="another life") as conflict:
        opened(tmp_path, context(2, "home-2"))
    assert "--new-life" in str(conflict.value)
    assert trace(tmp_path) == before
    new = opened(tmp_path, context(2, "home-2", new_life=True))
    assert new.published() is None
    new.publish(BatchId(0), staged(new, 2, 0))
    for forbidden in (lambda: old.publish(BatchId(2), ()), lambda: old.rewind(None), lambda: old.discard(())):
        with pytest.raises(Fenced, match="another life"):
            forbidden()
    new.rewind(None)
    new.discard(())
    assert rows(tmp_path) == expected(0, 1)
    with pytest.raises(Conflict, match="another life"):
        opened(tmp_path, context(8))


def test_one_epoch_handed_out_twice_is_a_conflict(tmp_path: Path) -> None:
    first = published(tmp_path, 0, who=context(3, claim="a"))
    assert looked(tmp_path, 3).claim == fingerprint("a")
    with pytest.raises(Conflict, match="put back from a backup"):
        opened(tmp_path, context(3, claim="b"))
    first.publish(BatchId(1), staged(first, 3, 1))
    opened(tmp_path, context(3, claim="a"))
    # The way in the hint, --accept-older-home, claims above.
    assert opened(tmp_path, context(4, claim="b")).published() == 1
    with pytest.raises(Fenced):
        first.publish(BatchId(2), ())


def test_following_the_hint_a_file_that_was_put_back_is_published(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    ledger = staged(sink, 1, 0)
    path = tmp_path / ledger[0].files[0].path
    path.rename(tmp_path / "_away")
    with pytest.raises(HoldfastError, match="neither staged nor published"):
        sink.publish(BatchId(0), ledger)
    (tmp_path / "_away").rename(path)
    sink.publish(BatchId(0), ledger)
    assert rows(tmp_path) == expected(0)


def test_a_record_that_was_changed_or_is_newer_is_said_to_be(tmp_path: Path) -> None:
    sink = published(tmp_path, 0, 1)
    for page in (tmp_path / "_holdfast" / "orders" / "batches").iterdir():
        page.write_bytes(page.read_bytes().replace(b'"rows":1', b'"rows":7'))
    with pytest.raises(Corrupt, match="its bytes have changed"):
        sink.plan_rewind(None)
    (place,) = (tmp_path / "_holdfast" / "orders").glob("place-*.json")
    place.write_bytes(place.read_bytes().replace(b'"format":1', b'"format":2'))
    with pytest.raises(NewerFormat, match="written by a newer version"):
        looked(tmp_path, 1)


def test_a_name_is_as_long_as_it_likes(tmp_path: Path) -> None:
    place = tmp_path / f"a table {uuid.uuid4()}"
    published(place, 0, who=context(1, job="j" * 128))
    assert rows(place) == expected(0)


def test_a_run_that_slept_does_not_speak_for_the_one_that_took_the_table_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what it checked when the newer run has gone back behind that: no table was put back from a copy."""
    slept = published(tmp_path, 0, 1, 2, 3, who=context(1, claim="slept"))
    write_whole = os.replace
    woken: list[str] = []

    def asleep_before(source: Path, target: Path) -> None:
        if Path(target).name.startswith("place") and not woken:
            woken.append("once")
            newer = opened(tmp_path, context(2, claim="newer"))
            newer.rewind(BatchId(1))
            newer.publish(BatchId(2), staged(newer, 2, 2))
        write_whole(source, target)

    ledger = staged(slept, 1, 4)
    monkeypatch.setattr(os, "replace", asleep_before)
    with pytest.raises(Fenced):
        slept.publish(BatchId(4), ledger)
    assert woken
    opened(tmp_path, context(3, claim="next"))
    assert rows(tmp_path) == expected(0, 1, 2)


def test_a_run_that_slept_drops_no_page_of_the_one_that_overtook_it(tmp_path: Path) -> None:
    published(tmp_path, 0, 1)
    slept = opened(tmp_path, context(2))
    staged(slept, 1, 7)

    def overtaken(step: str) -> None:
        if step == "staged directory deleted":
            published(tmp_path, 2, 3, who=context(3))

    slept._step = overtaken
    slept.discard(())
    newer = opened(tmp_path, context(4))
    newer.rewind(BatchId(1))
    assert rows(tmp_path) == expected(0, 1)
