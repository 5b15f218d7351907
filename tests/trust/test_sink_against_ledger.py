"""R7: the sink is checked against the ledger, at open and at every commit."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from holdfast.errors import Conflict, Corrupt, Fenced, HoldfastError, InvalidSettings, NewerFormat
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks import Delta, Files, RewindPlan, SinkState, StagedBatch, StagedFile
from holdfast.sinks.protocol import fingerprint
from tests.trust.files_sink import (
    columns,
    compact,
    context,
    expected,
    files_of,
    opened,
    published,
    rows,
    snapshot,
    staged,
    visible,
)


def look(place: Path, schema: StructType | None = None, *, accept: bool = False) -> SinkState:
    return Files(place).look(context(accept=accept), None, schema or columns())  # type: ignore[arg-type]


class TestWhatAFilesDirectoryIs:
    def test_an_empty_place_and_our_own_pass(self, tmp_path: Path) -> None:
        place = tmp_path / "out"
        assert look(place) == SinkState()
        assert not place.exists()
        published(place, 0, 1)
        before = snapshot(place)
        state = look(place)
        assert (state.fencing_epoch, state.published) == (1, 1)
        assert snapshot(place) == before

    @pytest.mark.parametrize(
        ("kind", "sign"),
        [
            ("Spark's file sink", "_spark_metadata/0"),
            ("a Delta table", "_delta_log/00000000000000000000.json"),
            ("an Iceberg table", "metadata/00000-x.metadata.json"),
            ("a Hudi table", ".hoodie/hoodie.properties"),
        ],
    )
    @pytest.mark.parametrize("accept", [False, True])
    def test_a_table_whose_readers_would_not_see_our_files_is_refused(
        self, tmp_path: Path, kind: str, sign: str, accept: bool
    ) -> None:
        (tmp_path / sign).parent.mkdir()
        (tmp_path / sign).write_text("{}")
        before = snapshot(tmp_path)
        for attempt in (lambda: look(tmp_path, accept=accept), lambda: opened(tmp_path, context(accept=accept))):
            with pytest.raises(Conflict, match=kind) as refusal:
                attempt()
            assert "another directory" in str(refusal.value.hint)
        assert snapshot(tmp_path) == before

    def test_a_table_that_somebody_makes_of_our_directory_is_refused(self, tmp_path: Path) -> None:
        published(tmp_path, 0)
        (tmp_path / "_delta_log").mkdir()
        with pytest.raises(Conflict, match="a Delta table"):
            opened(tmp_path, context(2))

    @pytest.mark.parametrize("name", ["data.parquet", "day=1/part-0.parquet", "README.txt"])
    def test_files_of_others_are_refused_unless_accepted(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [7]}), tmp_path / name)
        before = snapshot(tmp_path)
        for attempt in (lambda: look(tmp_path), lambda: opened(tmp_path, context())):
            with pytest.raises(Conflict, match=name) as refusal:
                attempt()
            assert "--accept-sink" in str(refusal.value.hint)
        assert snapshot(tmp_path) == before
        opened(tmp_path, context(accept=True))
        opened(tmp_path, context(2))

    def test_hidden_and_unreadable_names_are_nobodys_data(self, tmp_path: Path) -> None:
        for name in ("_SUCCESS", ".DS_Store", ".part.crc"):
            (tmp_path / name).write_text("")
        (tmp_path / "lost+found").mkdir(mode=0)
        opened(tmp_path, context())

    def test_other_jobs_of_ours_may_share_the_directory(self, tmp_path: Path) -> None:
        published(tmp_path, 0, who=context(lineage="home-2", job="clicks"))
        published(tmp_path, 0)
        assert rows(tmp_path) == sorted(expected(0) * 2)

    def test_somebody_may_add_files_of_his_own_later(self, tmp_path: Path) -> None:
        sink = published(tmp_path, 0)
        pq.write_table(pa.table({"id": [99]}), tmp_path / "theirs.parquet")
        sink.publish(BatchId(1), staged(sink, 1, 1))
        opened(tmp_path, context(2)).rewind(BatchId(0))
        assert rows(tmp_path) == [*expected(0), 99]

    def test_visible_files_without_their_ledger_are_a_conflict(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1)
        shutil.rmtree(tmp_path / "_holdfast")
        with pytest.raises(Conflict, match=r"files of job 'orders' .* its ledger .* is gone"):
            opened(tmp_path, context(2))
        sink = opened(tmp_path, context(2, accept=True))
        assert sink.published() == 1
        sink.discard(())
        assert rows(tmp_path) == expected(0, 1)

    def test_a_ledger_of_a_newer_version_is_not_read_as_if_it_were_known(self, tmp_path: Path) -> None:
        published(tmp_path, 0)
        path = tmp_path / "_holdfast" / "orders" / "life.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 3}))
        with pytest.raises(NewerFormat, match="newer version"):
            look(tmp_path)


def compacts(place: Path) -> None:
    compact(place, files_of(place, 0, 1))


def deletes_one(place: Path) -> None:
    files_of(place, 1)[0].unlink()


def empties(place: Path) -> None:
    for path in visible(place):
        path.unlink()


def rewrites(place: Path) -> None:
    pq.write_table(pa.table({"id": [0] * 1000}), files_of(place, 0)[0])


def links(place: Path) -> None:
    path = files_of(place, 0)[0]
    path.rename(place / "_elsewhere")
    path.symlink_to(place / "_elsewhere")


HARM = [compacts, deletes_one, empties, rewrites, links]


class TestWhatFilesPublishedIsThere:
    @pytest.mark.parametrize("harm", HARM)
    def test_a_loss_while_the_job_is_down_is_a_conflict_that_leaves_no_trace(
        self, tmp_path: Path, harm: Callable[[Path], None]
    ) -> None:
        published(tmp_path, 0, 1, 2)
        harm(tmp_path)
        before = snapshot(tmp_path)
        for attempt in (lambda: look(tmp_path), lambda: opened(tmp_path, context(2))):
            with pytest.raises(Conflict, match=r"has published batches up to 2 .* of 6 published files") as refusal:
                attempt()
            assert "--accept-sink" in str(refusal.value.hint)
        assert snapshot(tmp_path) == before
        assert look(tmp_path, accept=True).published == 2

    @pytest.mark.parametrize("harm", HARM)
    def test_a_loss_while_it_runs_stops_the_next_publish(self, tmp_path: Path, harm: Callable[[Path], None]) -> None:
        sink = published(tmp_path, 0, 1)
        ledger = staged(sink, 1, 2)
        harm(tmp_path)
        before = snapshot(tmp_path)
        with pytest.raises(Conflict, match="published files"):
            sink.publish(BatchId(2), ledger)
        assert snapshot(tmp_path) == before

    @pytest.mark.parametrize("harm", HARM)
    def test_an_accepted_loss_is_not_missed_again(self, tmp_path: Path, harm: Callable[[Path], None]) -> None:
        published(tmp_path, 0, 1, 2)
        harm(tmp_path)
        seen = rows(tmp_path) if harm is not links else []
        opened(tmp_path, context(2, accept=True)).discard(())
        sink = opened(tmp_path, context(3))
        assert sink.published() == 2
        sink.publish(BatchId(3), staged(sink, 3, 3))
        if harm is not links:
            assert rows(tmp_path) == sorted(seen + expected(3))

    def test_what_is_known_by_number_only_is_counted_at_open(self, tmp_path: Path) -> None:
        sink = published(tmp_path, 0, 1, 2)
        sink.forget(BatchId(1))
        assert opened(tmp_path, context(2)).published() == 2
        deletes_one(tmp_path)
        with pytest.raises(Conflict, match=r"4 files with .* of batches up to 1 were published, 3 with"):
            opened(tmp_path, context(3))
        opened(tmp_path, context(3, accept=True))
        assert opened(tmp_path, context(4)).published() == 2

    def test_an_older_copy_put_back_goes_on_only_when_accepted(self, tmp_path: Path) -> None:
        place, copy = tmp_path / "out", tmp_path / "backup"
        sink = published(place, 0)
        shutil.copytree(place, copy)
        sink.publish(BatchId(1), staged(sink, 1, 1))
        shutil.rmtree(place)
        copy.rename(place)
        newer = opened(place, context(2))
        ledger = staged(newer, 2, 2)
        with pytest.raises(Conflict, match="no entry of batch 1"):
            newer.publish(BatchId(2), ledger)
        accepted = opened(place, context(3, accept=True))
        accepted.publish(BatchId(2), ledger)
        assert rows(place) == expected(0, 2)
        assert opened(place, context(4)).published() == 2

    def test_a_directory_replaced_while_the_job_runs_is_a_conflict(self, tmp_path: Path) -> None:
        sink = published(tmp_path / "out", 0)
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "out").mkdir()
        with pytest.raises(Conflict, match="replaced, emptied or put back"):
            sink.publish(BatchId(1), ())

    def test_a_record_that_somebody_deleted_proves_nothing(self, tmp_path: Path) -> None:
        published(tmp_path, 0)
        for folder in (tmp_path / "_holdfast").rglob("batches"):
            shutil.rmtree(folder)
        with pytest.raises(Conflict, match="does not tell of all batches"):
            opened(tmp_path, context(2))


class TestWhatFilesStagedIsThere:
    @pytest.mark.parametrize("number", [0, 1])
    @pytest.mark.parametrize("harm", ["deleted", "cut short"])
    def test_nothing_is_shown_of_a_batch_that_is_not_whole(self, tmp_path: Path, harm: str, number: int) -> None:
        sink = published(tmp_path, 0)
        ledger = staged(sink, 1, 1)
        path = tmp_path / ledger[0].files[number].path
        content = path.read_bytes()
        path.unlink()
        if harm == "cut short":
            path.write_bytes(content[:-1])
        for _ in range(2):
            with pytest.raises(HoldfastError, match=r"neither staged nor published|bytes, it was staged with"):
                sink.publish(BatchId(1), ledger)
            assert rows(tmp_path) == expected(0)
        path.write_bytes(content)  # the hint, followed
        sink.publish(BatchId(1), ledger)
        assert rows(tmp_path) == expected(0, 1)


class TestColumnsOfFiles:
    """A reader gives a column one type over all files of the directory."""

    def test_a_dropped_column_may_not_come_back_as_something_else(self, tmp_path: Path) -> None:
        wide, narrow = columns(id=LongType(), price=LongType()), columns(id=LongType())
        for epoch, schema in enumerate((wide, narrow, narrow), 1):
            sink = opened(tmp_path, context(epoch), schema)
            sink.publish(BatchId(epoch - 1), staged(sink, epoch, epoch - 1))
            sink.discard(())
        before = snapshot(tmp_path)
        for attempt in (look, lambda place, schema: opened(place, context(4), schema)):
            with pytest.raises(InvalidSettings, match="price: string in the query, long in the table"):
                attempt(tmp_path, columns(id=LongType(), price=StringType()))
        assert snapshot(tmp_path) == before
        opened(tmp_path, context(4), wide)

    def test_a_column_may_not_differ_in_case_only(self, tmp_path: Path) -> None:
        published(tmp_path, 0)
        with pytest.raises(InvalidSettings, match="ID: in the query, id in the files"):
            look(tmp_path, columns(ID=LongType()))
        with pytest.raises(InvalidSettings, match="in another case"):
            look(tmp_path / "new", columns(x=LongType(), X=LongType()))

    def test_what_another_run_staged_is_published_by_columns_that_were_checked(self, tmp_path: Path) -> None:
        first = opened(tmp_path, context(1), columns(id=LongType()))
        old = staged(first, 1, 1)
        sink = opened(tmp_path, context(2), columns(id=IntegerType()))
        sink.publish(BatchId(0), staged(sink, 2, 0))
        before = rows(tmp_path)
        with pytest.raises(InvalidSettings, match="id: long in the query, integer in the table"):
            sink.publish(BatchId(1), old)
        assert rows(tmp_path) == before

    def test_columns_of_other_jobs_in_the_directory_count_as_well(self, tmp_path: Path) -> None:
        published(tmp_path, 0, who=context(job="clicks"))
        with pytest.raises(InvalidSettings, match="id: string in the query"):
            look(tmp_path, columns(id=StringType()))

    def test_columns_of_another_life_count_as_well(self, tmp_path: Path) -> None:
        published(tmp_path, 0)
        with pytest.raises(InvalidSettings, match="id: string in the query"):
            opened(tmp_path, context(1, "home-2", new_life=True), columns(id=StringType()))


class TestPathsInALedgerEntry:
    """K1: a ledger entry comes from outside; what it names was moved, and the folder around it deleted."""

    @pytest.mark.parametrize(
        "path",
        [
            "../precious/secret.txt",
            "{tmp}/precious/secret.txt",
            "theirs.parquet",
            "_holdfast/orders/{life}/staged/1/0-x/../../../../../../precious/secret.txt",
            "_holdfast/clicks/{life}/staged/1/0-x/part-0.parquet",
            "_holdfast/orders/{life}/staged/1/7-x/part-0.parquet",
            "_holdfast/orders/{life}/staged/1/0-link/secret.txt",
        ],
    )
    def test_nothing_but_what_was_staged_for_the_batch_is_touched(self, tmp_path: Path, path: str) -> None:
        precious, place = tmp_path / "precious", tmp_path / "out"
        precious.mkdir()
        (precious / "secret.txt").write_text("mine")
        sink = opened(place, context())
        (place / "theirs.parquet").write_text("theirs")
        (sink._layout.own / "staged" / "1").mkdir()
        (sink._layout.own / "staged" / "1" / "0-link").symlink_to(precious)
        before = snapshot(tmp_path)
        named = StagedFile(path.format(tmp=tmp_path, life=sink._layout.own.name), 4, 1)
        ledger = (StagedBatch(BatchId(0), FencingEpoch(1), (named,)),)
        for attempt in (lambda: sink.publish(BatchId(0), ledger), lambda: sink.discard(ledger)):
            with pytest.raises(Corrupt):
                attempt()
        assert snapshot(tmp_path) == before

    @pytest.mark.parametrize("folder", ["trash", "staged", "staged/1", "published", "."])
    def test_a_folder_of_ours_that_became_a_link_is_not_followed(self, tmp_path: Path, folder: str) -> None:
        """Who may write to the sink's place may not have this process delete what lies elsewhere."""
        precious, place = tmp_path / "precious", tmp_path / "out"
        (precious / "1" / "9-x").mkdir(parents=True)
        (precious / "9-x").mkdir()
        for path in (precious / "1" / "9-x" / "mine", precious / "9-x" / "mine", precious / "mine"):
            path.write_text("mine")
        sink = published(place, 0)
        (sink._layout.own / "staged" / "1").mkdir(exist_ok=True)
        link = sink._layout.own / folder
        link.rename(place / "_aside")
        link.symlink_to(precious)
        before = snapshot(precious)
        for attempt in (lambda: sink.discard(()), lambda: sink.rewind(None), lambda: opened(place, context(1))):
            with pytest.raises(Corrupt, match="symbolic link"):
                attempt()
        assert snapshot(precious) == before

    def test_a_staged_directory_that_is_a_link_is_nobodys(self, tmp_path: Path) -> None:
        precious, place = tmp_path / "precious", tmp_path / "out"
        (precious / "9-x").mkdir(parents=True)
        (precious / "9-x" / "mine").write_text("mine")
        sink = opened(place, context(7))
        (sink._layout.own / "staged" / "3").symlink_to(precious)
        sink.discard(())
        assert snapshot(precious) == {"9-x/mine": b"mine"}


class TestLivesOfFiles:
    """R3 at the sink: one ledger per job name, its lineage a checked value."""

    def test_another_life_is_refused_and_named(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1)
        before = snapshot(tmp_path)
        with pytest.raises(Conflict, match=r"another life of job 'orders' \(batches up to 1\)") as refusal:
            opened(tmp_path, context(1, "home-2"))
        assert "--new-life" in str(refusal.value.hint)
        assert snapshot(tmp_path) == before

    def test_a_new_life_leaves_the_rows_of_the_old_one_and_ends_its_run(self, tmp_path: Path) -> None:
        old = published(tmp_path, 0, 1, who=context(7))
        left = staged(old, 7, 2)
        new = opened(tmp_path, context(1, "home-2", new_life=True))
        assert new.published() is None
        new.discard(())
        assert list(old._layout.staged()) == []
        new.publish(BatchId(0), staged(new, 1, 0))
        assert rows(tmp_path) == sorted(expected(0, 1) + expected(0))
        for forbidden in (lambda: old.publish(BatchId(2), left), lambda: old.rewind(None), lambda: old.discard(())):
            with pytest.raises(Fenced, match="another life"):
                forbidden()
        with pytest.raises(Conflict, match="another life"):
            opened(tmp_path, context(8))
        new.rewind(None)
        assert rows(tmp_path) == expected(0, 1)
        assert opened(tmp_path, context(2, "home-2")).published() is None

    def test_the_same_epoch_with_another_claim_is_a_conflict(self, tmp_path: Path) -> None:
        first = opened(tmp_path, context(3, claim="a"))
        opened(tmp_path, context(3, claim="a"))
        before = snapshot(tmp_path)
        with pytest.raises(Conflict, match="put back from a backup"):
            opened(tmp_path, context(3, claim="b"))
        assert snapshot(tmp_path) == before
        first.publish(BatchId(0), staged(first, 3, 0))

    def test_look_tells_life_epoch_claim_and_batch(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, who=context(3, claim="a"))
        state = Files(tmp_path).look(context(0, ""), None, columns())  # type: ignore[arg-type]
        assert state == SinkState(fingerprint("home-1"), FencingEpoch(3), fingerprint("a"), BatchId(1))


class TestWhatVersion010Left:
    """`_holdfast/<job>-<hash of the lineage>/`, without life, record and columns."""

    def make(self, place: Path) -> tuple[StagedBatch, ...]:
        """As 0.1.0 left it: batches 0 and 1 visible, 2 staged, its ledger entry with the paths of then."""
        sink = published(place, 0, 1, who=context(4))
        (left,) = staged(sink, 4, 2)
        now = sink._layout.own
        then = place / "_holdfast" / f"orders-{now.name}"
        now.rename(then)
        shutil.rmtree(now.parent)
        for folder in ("batches", "columns"):
            shutil.rmtree(then / folder)
        for marker in (then / "published").iterdir():
            marker.write_text('{"batch_id":1}')
        files = tuple(
            StagedFile(f"_holdfast/{then.name}/{file.path.split('/', 3)[3]}", file.size, file.rows)
            for file in left.files
        )
        return (StagedBatch(left.batch_id, left.fencing_epoch, files),)

    def test_it_is_carried_over(self, tmp_path: Path) -> None:
        ledger = self.make(tmp_path)
        before = snapshot(tmp_path)
        state = look(tmp_path)
        assert (state.fencing_epoch, state.published) == (4, 1)
        looked = Files(tmp_path)
        looked.look(context(), None, columns())  # type: ignore[arg-type]
        assert looked.plan_rewind(BatchId(0)) == RewindPlan(batches=1, files=2, rows=2)
        assert snapshot(tmp_path) == before
        sink = opened(tmp_path, context(5))
        sink.publish(BatchId(2), ledger)
        sink.discard(())
        assert rows(tmp_path) == expected(0, 1, 2)
        assert [path.name for path in (tmp_path / "_holdfast").iterdir()] == ["orders"]
        newer = opened(tmp_path, context(6))
        newer.rewind(BatchId(0))
        assert rows(tmp_path) == expected(0)

    def test_what_is_missing_later_is_noticed(self, tmp_path: Path) -> None:
        self.make(tmp_path)
        opened(tmp_path, context(5))
        deletes_one(tmp_path)
        with pytest.raises(Conflict, match="published files"):
            opened(tmp_path, context(6))

    def test_another_life_of_it_is_refused(self, tmp_path: Path) -> None:
        self.make(tmp_path)
        with pytest.raises(Conflict, match="another life"):
            opened(tmp_path, context(1, "home-2"))

    def test_its_columns_are_remembered(self, tmp_path: Path) -> None:
        self.make(tmp_path)
        with pytest.raises(InvalidSettings, match="id: string in the query"):
            look(tmp_path, columns(id=StringType()))
        opened(tmp_path, context(5)).discard(())
        with pytest.raises(InvalidSettings, match="id: string in the query"):
            look(tmp_path, columns(id=StringType()))


@pytest.mark.parametrize("kind", [Delta, Files])
def test_a_run_that_slept_begins_no_ledger_in_a_place_that_was_emptied_since_it_looked(
    tmp_path: Path, kind: type[Delta] | type[Files]
) -> None:
    """Found by simulation: the next run believed that nothing had ever been published there."""
    place = tmp_path / "table"
    kind(place).open(context(1), None, columns())  # type: ignore[arg-type]
    slept = kind(place)
    looked = slept.look(context(1), None, columns()).fencing_epoch  # type: ignore[arg-type]
    shutil.rmtree(place)

    with pytest.raises(Conflict, match="emptied, replaced or put back"):
        slept.open(msgspec.structs.replace(context(2), looked=looked), None, columns())  # type: ignore[arg-type]

    assert kind(place).look(context(2), None, columns()) == SinkState()  # type: ignore[arg-type]


def test_a_run_that_slept_drops_no_page_of_the_one_that_overtook_it(tmp_path: Path) -> None:
    published(tmp_path, 0, 1)
    slept = opened(tmp_path, context(2))
    forget_runs_before = slept._layout.forget_runs_before

    def overtaken(epoch: FencingEpoch, staged_by: set[FencingEpoch]) -> None:
        forget_runs_before(epoch, staged_by)
        published(tmp_path, 2, 3, who=context(3))

    slept._layout.forget_runs_before = overtaken  # type: ignore[method-assign]
    slept.discard(())
    newer = opened(tmp_path, context(4))
    newer.rewind(BatchId(1))
    assert rows(tmp_path) == expected(0, 1)


def test_a_run_that_slept_forgets_nothing_that_the_one_that_overtook_it_counts_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = published(tmp_path, 0, 1, 2)
    write_whole = os.replace
    woken: list[str] = []

    def asleep_before(source: Path, target: Path) -> None:
        if Path(target).parent.name == "published" and not woken:
            woken.append("once")
            opened(tmp_path, context(2))
        write_whole(source, target)

    monkeypatch.setattr(os, "replace", asleep_before)
    with pytest.raises(Fenced):
        slept.forget(BatchId(1))
    assert woken
    opened(tmp_path, context(3))
