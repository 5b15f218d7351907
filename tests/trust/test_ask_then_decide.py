"""R5: ask everyone, then decide. A sink says what a rewind would do and whether it can before anything is abandoned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from holdfast.checkpoint.manifest import Manifest
from holdfast.errors import Conflict, HoldfastError, Incompatible, InvalidSettings, StorageUnreachable
from holdfast.identifiers import BatchId
from holdfast.plans.log import Standing
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.job_folder import left_by
from holdfast.runtime.own_writer import WriterRecord
from holdfast.runtime.recovery.recovery import Resumed
from holdfast.sinks import Files, RewindPlan
from holdfast.spark.input_files import missing_files
from holdfast.spark.looking_ahead import PlaceAhead, refusal_ahead
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.trust.files_sink import columns, compact, context, expected, files_of, opened, published, rows, snapshot
from tests.trust.jobs_with_sinks import Job, dying_at
from tests.trust.jobs_with_sinks import job as job
from tests.unit.churning_runs import JOB, manifest_of, state_of
from tests.unit.test_catching_up import Directory, IdempotentWriter, catching_up
from tests.unit.test_keeping_plans import Kept


class TestRewindOfFiles:
    def test_a_dry_rewind_says_what_goes_and_leaves_no_trace(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, 2)
        before = snapshot(tmp_path)
        looked = Files(tmp_path)
        looked.look(context(), None, columns())  # type: ignore[arg-type]
        for sink in (looked, opened(tmp_path, context())):
            assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
            assert sink.plan_rewind(None) == RewindPlan(batches=3, files=6, rows=6)
            assert sink.plan_rewind(BatchId(2)) == RewindPlan()
        assert snapshot(tmp_path) == before

    def test_batches_of_which_only_the_number_is_known_can_be_taken_back(self, tmp_path: Path) -> None:
        sink = published(tmp_path, 0, 1, 2)
        sink.forget(BatchId(1))
        assert sink.plan_rewind(BatchId(0)) == RewindPlan(batches=2, files=4, rows=4)
        sink.rewind(BatchId(0))
        assert rows(tmp_path) == expected(0)
        assert opened(tmp_path, context(2)).published() == 0

    @pytest.mark.parametrize("forgotten", [False, True])
    def test_what_somebody_compacted_cannot_be_taken_back(self, tmp_path: Path, forgotten: bool) -> None:
        """Today's code removed what it still found and wrote the batches again: 30 of 40 rows were there twice."""
        sink = published(tmp_path, 0, 1, 2, 3)
        if forgotten:
            sink.forget(BatchId(2))
        compact(tmp_path, files_of(tmp_path, 1, 2, 3))
        before = snapshot(tmp_path)
        plan = sink.plan_rewind(BatchId(0))
        assert plan.obstacle is not None
        assert "compacted.parquet" in plan.obstacle
        with pytest.raises(Conflict, match="compacted"):
            sink.rewind(BatchId(0))
        assert snapshot(tmp_path) == before
        assert rows(tmp_path) == expected(0, 1, 2, 3)

    def test_nor_when_the_compaction_was_accepted(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, 2, 3)
        compact(tmp_path, files_of(tmp_path, 1, 2, 3))
        sink = opened(tmp_path, context(2, accept=True))
        assert sink.published() == 3
        with pytest.raises(Conflict, match="compacted"):
            sink.rewind(BatchId(0))
        with pytest.raises(Conflict, match="compacted"):
            opened(tmp_path, context(3)).rewind(BatchId(0))
        assert rows(tmp_path) == expected(0, 1, 2, 3)

    def test_deleted_files_are_taken_back_when_that_was_accepted(self, tmp_path: Path) -> None:
        published(tmp_path, 0, 1, 2)
        files_of(tmp_path, 2)[0].unlink()
        sink = opened(tmp_path, context(2, accept=True))
        sink.rewind(BatchId(0))
        assert rows(tmp_path) == expected(0)
        assert opened(tmp_path, context(3)).published() == 0


# --- a job asks its query, its sink and its source before it abandons anything ---


def went_back(job: Job) -> bool:
    state = state_of(job.home)
    return state.went_back is not None or bool(state.abandoned) or bool(state.corrupt)


def test_a_job_goes_back_and_no_row_is_there_twice(job: Job) -> None:
    job.lived(4)
    run = job.run(from_checkpoint=2)
    job.require_rows(2)
    job.goes_on(run, 3, rows=5)


def test_a_sink_that_cannot_take_rows_back_is_asked_first(job: Job) -> None:
    """Sound checkpoints were abandoned, and the job was stuck for good."""
    job.lived(4)
    job.rewritten_by_others()
    before = job.rows()
    accept = {"accept_sink": True} if job.kind == "files" else {}  # a compacted directory is to be accepted once
    if accept:
        head = state_of(job.home).head
        with pytest.raises(Conflict, match="published files"):
            job.run(from_checkpoint=1)
        assert state_of(job.home).head == head, "not even claimed"
    head = state_of(job.home).head
    with pytest.raises(Conflict, match=r"could not go back to checkpoint 1: .* cannot be rewound to batch 0") as error:
        job.run(from_checkpoint=1, **accept)
    assert state_of(job.home).head == head, "not even claimed"
    assert job.rows() == before
    assert "Start without going back" in (error.value.hint or "")
    job.lived(2, **accept)
    job.require_rows(6)


def test_a_query_whose_columns_do_not_fit_is_refused_before_the_claim(job: Job) -> None:
    """Today's code journalled the way back first: the next plain start took the rows back."""
    job.lived(4)
    head, rows = state_of(job.home).head, job.rows()
    with pytest.raises(InvalidSettings, match="columns"):
        job.run(from_checkpoint=1, schema=columns(id=StringType()))
    assert state_of(job.home).head == head, "not even claimed"
    job.lived(1)
    assert not went_back(job)
    assert job.rows()[: len(rows)] == rows
    job.require_rows(5)


def test_a_source_that_has_forgotten_is_asked_first(job: Job) -> None:
    job.lived(4)
    (job.source / "2.json").unlink()
    head = state_of(job.home).head
    with pytest.raises(Conflict, match=r"1 of 2 files .* are gone, for example .*2\.json") as error:
        job.run(from_checkpoint=2)
    assert state_of(job.home).head == head, "not even claimed"
    job.require_rows(4)
    assert "--force" in (error.value.hint or "")
    run = job.run(from_checkpoint=2, force=True)  # the hint, followed
    assert run.runtime._life.resumed.barrier == 1
    job.require_rows(2)
    run.stop()


@pytest.mark.parametrize(
    ("plans", "attempted"), [("off", "resume without"), ("prefer", "repeat the batches up to 3 without")]
)
def test_damage_of_the_newest_checkpoint_is_no_reason_to_lose_rows_of_a_source_that_has_forgotten(
    job: Job, plans: str, attempted: str
) -> None:
    job.settings["plans"] = plans
    job.lived(4)
    job.wipe_work()
    newest = state_of(job.home).restorable()[0]
    keys = {file.key for file in manifest_of(job.home, newest).files() if file.path.startswith("state/")}
    older = {file.key for entry in state_of(job.home).restorable()[1:] for file in manifest_of(job.home, entry).files()}
    path = job.home / "churn" / sorted(keys - older)[0]
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    (job.source / "3.json").unlink()
    with pytest.raises(Conflict, match=rf"could not {attempted} checkpoint .* must be read again are gone"):
        job.run()
    assert not went_back(job)
    path.write_bytes(data)
    job.lived(1)
    job.require_rows(5)


def test_an_older_home_says_that_the_source_cannot_be_asked(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """What the batches read that are taken back is in the journal that was lost."""
    job.lived(2)
    backup = job.backup()
    job.lived(2)
    job.put_back(backup)
    job.run(accept_older_home=True).stop()
    job.require_rows(2)
    assert "whether their sources still have their input cannot be checked" in caplog.text


@pytest.mark.parametrize("step", ["recovery.directory", "recovery.back", "recovery.fenced", "recovery.aligned"])
def test_a_death_anywhere_on_the_way_back_costs_no_row(job: Job, step: str) -> None:
    job.lived(4)
    with pytest.raises(KeyboardInterrupt):
        job.run(from_checkpoint=2, step=dying_at(step))
    job.lived(3, from_checkpoint=2)
    job.require_rows(5)
    job.lived(1)
    job.require_rows(6)


@pytest.mark.parametrize("step", ["recovery.back", "recovery.fenced"])
def test_what_the_journal_gave_up_is_taken_back_by_the_next_start_whatever_it_asks_for(job: Job, step: str) -> None:
    job.lived(4)
    with pytest.raises(KeyboardInterrupt):
        job.run(from_checkpoint=2, step=dying_at(step))
    job.require_rows(4)
    run = job.run()
    job.require_rows(2)
    job.goes_on(run, 2, rows=4)


def test_rows_that_an_optimize_moved_are_spoken_of_when_the_sink_is_accepted_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """ "2 batches with 0 rows are taken back", and each of their rows stood there twice in the end."""
    job = Job(tmp_path, "delta")
    job.lived(4)
    job.rewritten_by_others()
    job.wipe_work()
    with pytest.raises(Conflict, match="has rewritten 4 of the 4 files"):
        job.run(from_checkpoint=2)
    job.run(from_checkpoint=2, accept_sink=True).stop()
    assert "4 more rows of these batches are not in the files that were published" in caplog.text


class Untouched:
    """A sink that nobody may ask to change anything yet."""

    def describe(self) -> str:
        return "files:/out"


def test_a_gap_in_the_plans_is_refused_before_the_sink_is_rewound(tmp_path: Path) -> None:
    """Readers of `publish="batch"` would lose rows to a start that is refused afterwards."""
    kept = Kept(tmp_path, "require")
    kept.history.complete(2, batch=0)
    kept.history.run()
    kept.keep(1)
    kept.keep(3)
    query = IdempotentWriter(stateful=True)
    query.sink = cast(Any, Untouched())
    resumed = Resumed(directory=cast(Any, Directory(tmp_path / "restored")), barrier=BatchId(0), durable=BatchId(0))
    with pytest.raises(Conflict, match="no plan of batch 2, but one of 3; files:/out may have that batch") as refused:
        catching_up(kept, query, "refuse").require_no_skips(resumed, lambda planned: False)
    assert (refused.value.hint or "").endswith("take back what it shows after batch 0: --from-checkpoint 2")


def test_an_append_only_table_is_asked_first(tmp_path: Path) -> None:
    job = Job(tmp_path, "delta")
    job.lived(3)
    DeltaTable(str(job.place)).alter.set_table_properties({"delta.appendOnly": "true"})
    head = state_of(job.home).head
    with pytest.raises(Conflict, match=r"cannot be rewound to batch 0: the table takes no deletions"):
        job.run(from_checkpoint=1)
    assert state_of(job.home).head == head, "not even claimed"
    job.lived(1)
    job.require_rows(4)


# --- the query is asked before the claim, about the directory that is here and about the checkpoint ---


class Looked:
    """Refuses what it is told to, and remembers where it was asked."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.asked: list[str] = []
        self.found: set[str] = set()

    def __call__(self, place: PlaceAhead) -> HoldfastError | None:
        path = place.directory.mounted_at
        assert path is not None
        self.asked.append(path.name)
        if path.name == "described":
            self.found = {str(found.relative_to(path)) for found in path.rglob("*")}
        return Incompatible(f"refused in {path.name}") if path.name in self.refused else None


@pytest.fixture
def ahead(tmp_path: Path) -> Ahead:
    job = Job(tmp_path, "files")
    job.lived(2)
    (newest, *_) = state_of(job.home).restorable()
    run = state_of(job.home).run
    assert run is not None
    return Ahead(
        barrier=newest.barrier_batch_id,
        store=LocalStore(job.home, within=JOB),
        manifest=lambda: manifest_of(job.home, newest),
        left=lambda: left_by(work_directory(job.work / JOB), run.fencing_epoch),
        standing=lambda barrier: Standing(()),
        broken=lambda taken, why, barrier: Conflict(why),
        may_have_more=lambda planned, local: False,
        recorded=lambda local: WriterRecord(state_of(job.home)),
    )


def test_where_the_directory_is_here_the_checkpoint_is_not_read(ahead: Ahead) -> None:
    looked = Looked("described")
    assert refusal_ahead(replace(ahead, manifest=no_manifest), looked) is None
    assert looked.asked == ["1-1"]


def test_what_only_the_directory_here_refuses_may_go_on_from_the_checkpoint(ahead: Ahead) -> None:
    looked = Looked("1-1")
    assert refusal_ahead(ahead, looked) is None
    assert looked.asked == ["1-1", "described"]


def test_what_both_refuse_is_refused_before_the_claim(ahead: Ahead) -> None:
    refused = refusal_ahead(ahead, Looked("1-1", "described"))
    assert refused is not None
    assert refused.message == "refused in 1-1"


def test_of_a_checkpoint_only_what_describes_the_query_is_fetched(ahead: Ahead) -> None:
    looked = Looked("described")
    assert refusal_ahead(replace(ahead, left=lambda: None), looked) is not None
    assert {"metadata", "offsets/1", "commits/1", "state/0"} <= looked.found
    assert not any(name.startswith("state/0/") for name in looked.found), "an operator is there, its data is not"


def test_a_checkpoint_that_cannot_be_read_refuses_nothing_before_the_claim(ahead: Ahead) -> None:
    assert refusal_ahead(replace(ahead, manifest=no_manifest), Looked("1-1", "described")) is None


def no_manifest() -> Manifest:
    raise StorageUnreachable("could not read the manifest")


def test_spark_says_which_files_of_the_source_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    """One call per file into a JVM that other tests share."""
    there, gone = tmp_path / "a b.json", tmp_path / "gone.json"
    there.touch()
    assert missing_files(spark, [there.as_uri(), gone.as_uri()]) == (gone.as_uri(),)
