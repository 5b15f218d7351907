"""R7, for a writer of the user's own: a sink that lacks batches that nobody writes again is refused.

A sink may keep no record of a batch without rows. So what it has now is compared with what it reported once, which the
journal has recorded. Real sinks: `tests/spark/test_own_writer.py`.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, CheckpointId, JobName
from holdfast.repository.entries import RunEnded
from holdfast.runtime.commands.spark_output import look_at
from holdfast.runtime.own_writer import Taken, WriterRecord, asked, require_earlier
from holdfast.workdir.factory import work_directory
from tests.unit.job_histories import History
from tests.unit.test_catching_up import Directory, IdempotentWriter, catching_up
from tests.unit.test_keeping_plans import Kept

JOB = JobName("orders")


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    return history


def taken(newest: int | None, earlier: Any = "reported") -> Taken:
    return Taken("the table", None if newest is None else BatchId(newest), known=True, earlier=earlier)


def ended(history: History, has: int | None, planned: int | None = None) -> None:
    batches = {"writer_has": has, "planned": planned}
    history._append(RunEnded, reason="stopped", **batches)
    history.run()


def resumed(
    history: History, taken: Taken, barrier: int | None, checkpoint: int | None = None, **options: bool
) -> list[str]:
    """What is warned of."""
    warned: list[str] = []
    recorded = WriterRecord(history.state(), None if checkpoint is None else CheckpointId(checkpoint))
    wanted: dict[str, bool] = {"may_be_empty": False, "accept": False} | options
    behind = None if barrier is None else BatchId(barrier)
    require_earlier(JOB, taken, behind, recorded, **wanted, warn=warned.append)
    return warned


@pytest.mark.parametrize(("newest", "barrier"), [(10, 10), (12, 10), (None, None), (3, None)])
def test_a_sink_that_has_every_batch_up_to_where_the_job_resumes_is_fine(
    history: History, newest: int | None, barrier: int
) -> None:
    history.complete(1, batch=10, writer_has=BatchId(10))
    assert resumed(history, taken(newest), barrier) == []
    assert resumed(history, taken(newest, "all"), barrier) == []


def test_a_sink_with_a_record_of_each_batch_is_refused_with_the_ways_out(history: History) -> None:
    history.complete(1, batch=7)
    history.complete(2, batch=10)
    with pytest.raises(Conflict, match="has batches up to 7, and the job resumes after batch 10") as refused:
        resumed(history, taken(7, "all"), 10)
    assert "--from-checkpoint 1;" in (refused.value.hint or "")
    with pytest.raises(Conflict) as refused:
        resumed(history, taken(8, "all"), 10)
    assert "--from-checkpoint" not in (refused.value.hint or ""), "checkpoint 1 lacks batch 8, which it would skip"
    assert "rows of batches 8 to 10" in resumed(history, taken(7, "all"), 10, accept=True)[0]


@pytest.mark.parametrize("earlier", ["all", "reported"])
def test_a_sink_that_was_emptied_is_refused_unless_it_may_be_another_one(history: History, earlier: str) -> None:
    history.complete(1, batch=10, writer_has=BatchId(10))
    with pytest.raises(Conflict, match="has no batch, and the job resumes after batch 10") as refused:
        resumed(history, taken(None, earlier), 10)
    assert "--from-checkpoint" not in (refused.value.hint or "")
    assert resumed(history, taken(None, earlier), 10, may_be_empty=True) == []
    with pytest.raises(Conflict):
        resumed(history, taken(7, earlier), 10, may_be_empty=True)


def test_a_table_that_shows_less_than_it_skips_is_refused_with_the_ways_out(history: History) -> None:
    """Delta's RESTORE takes the rows and leaves the record of the batches: 9 of 21 rows were missing, exit 0."""
    history.complete(1, batch=7, writer_has=BatchId(7))
    history.complete(2, batch=10, writer_has=BatchId(10))
    table = replace(taken(12, "reported"), restored_to=lambda: BatchId(7))
    for barrier, checkpoint in ((10, 2), (12, None), (None, None)):
        with pytest.raises(Conflict, match="shows batches up to 7, and skips batches 8 to 12, which it has") as refused:
            resumed(history, table, barrier, checkpoint)
        assert "run the missing batches again: --from-checkpoint 1;" in (refused.value.hint or "")
    assert "their rows stay missing" in resumed(history, table, 10, 2, accept=True)[0]
    emptied = replace(table, restored_to=lambda: BatchId(-1))
    with pytest.raises(Conflict, match="shows no batch, and skips batches 0 to 12"):
        resumed(history, emptied, 10, 2, may_be_empty=True)


def streamed(place: Path, batch: int) -> None:
    """As Spark's Delta sink does it."""
    rows = pa.table({"value": [batch]})
    record = CommitProperties(app_transactions=[Transaction("query", batch)])
    write_deltalake(str(place), rows, mode="append", commit_properties=record)
    commit = max((place / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"] |= {
                "operation": "STREAMING UPDATE",
                "operationParameters": {"queryId": "query", "epochId": str(batch)},
            }
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_output_of_which_an_older_version_was_restored_is_not_said_to_have_its_batches(tmp_path: Path) -> None:
    """`restore --sink` promised every row once, and `adopt --sink` that the output had them."""
    place = tmp_path / "out"
    for batch in range(4):
        streamed(place, batch)
        earlier = datetime.now(UTC)
    table = work_directory(place)
    assert look_at(table, "query").newest == 3
    DeltaTable(str(place)).restore(1)
    with pytest.raises(Conflict, match="it shows batches up to 1, and Spark's sink skips those up to 3"):
        look_at(table, "query")
    DeltaTable(str(place)).restore(3)
    assert look_at(table, "query").newest == 3
    DeltaTable(str(place)).restore(earlier)
    with pytest.raises(Conflict, match="by its time") as refused:
        look_at(table, "query")
    assert "by its number" in (refused.value.hint or "")


def test_a_table_that_was_taken_back_further_than_the_job_goes_is_refused(history: History) -> None:
    """Somebody took it back for checkpoint 1, and then went back to checkpoint 2: the rows in between were missing."""
    history.complete(1, batch=7, writer_has=BatchId(7))
    history.complete(2, batch=10, writer_has=BatchId(10))
    table = replace(taken(None), shows=BatchId(7))
    with pytest.raises(Conflict, match="has batches up to 7, and the job resumes after batch 10"):
        resumed(history, table, 10, 2, may_be_empty=True)
    assert resumed(history, table, 7, 1, may_be_empty=True) == []
    assert resumed(history, replace(table, shows=None), 10, 2, may_be_empty=True) == [], "another table"
    with pytest.raises(Conflict, match="shows batches that the job has left, and the job resumes after batch 10"):
        resumed(history, replace(table, shows=BatchId(10), shows_another_line=True), 10, 2, may_be_empty=True)
    begins = replace(table, shows=BatchId(10), shows_another_line=True)
    assert resumed(history, begins, 10, may_be_empty=True) == [], "it is the line that this one comes from"


def test_a_sink_that_has_less_than_it_reported_at_the_checkpoint_is_refused(history: History) -> None:
    history.complete(1, batch=7, writer_has=BatchId(7))
    history.complete(2, batch=10, writer_has=BatchId(10))
    with pytest.raises(Conflict, match="it had batch 10 when checkpoint 2 was taken") as refused:
        resumed(history, taken(7), 10, checkpoint=2)
    assert "--from-checkpoint 1;" in (refused.value.hint or "")
    assert resumed(history, taken(7), 7, checkpoint=1) == []


def test_a_sink_that_keeps_no_record_of_batches_without_rows_is_fine_with_what_it_reported(history: History) -> None:
    history.complete(1, batch=10, writer_has=BatchId(7))
    assert resumed(history, taken(7), 10, checkpoint=1) == []
    with pytest.raises(Conflict, match="it had batch 7 when checkpoint 1 was taken"):
        resumed(history, taken(6), 10, checkpoint=1)


def test_going_back_to_a_checkpoint_whose_last_batches_had_no_rows_is_offered(history: History) -> None:
    history.complete(1, batch=5, writer_has=BatchId(3))
    history.complete(2, batch=10, writer_has=BatchId(10))
    with pytest.raises(Conflict) as refused:
        resumed(history, taken(3), 10, checkpoint=2)
    assert "--from-checkpoint 1;" in (refused.value.hint or "")


def test_what_it_reported_at_the_end_of_the_run_counts_in_the_directory_of_that_run(history: History) -> None:
    history.complete(1, batch=10, writer_has=BatchId(10))
    ended(history, has=13, planned=14)
    assert resumed(history, taken(13), 14) == [], "batch 14 had no rows"
    with pytest.raises(Conflict, match="it had batch 13 when run 1 ended"):
        resumed(history, taken(12), 14)
    assert resumed(history, taken(12), 10, checkpoint=1) == [], "from the checkpoint the batches in between run again"


def test_what_was_accepted_once_is_what_counts_from_then_on(history: History) -> None:
    history.complete(1, batch=10, writer_has=BatchId(10))
    ended(history, has=4, planned=12)  # it was started with --accept-sink
    assert resumed(history, taken(4), 12) == []


def test_what_nobody_has_recorded_is_warned_of(history: History) -> None:
    """A checkpoint of an older version; and batches that a run that was killed has run since."""
    history.complete(1, batch=10)
    assert "unless the batches in between had no rows" in resumed(history, taken(7), 10)[0]
    history.complete(2, batch=12, writer_has=BatchId(12))
    assert "unless the batches in between had no rows" in resumed(history, taken(12), 14)[0]
    assert resumed(history, taken(None, "unknown"), 10) == [], "a Kafka topic is not asked"


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("earlier", ["unknown", "reported", "all"])
def test_what_a_sink_of_holdfast_has_staged_is_not_left_behind(history: History, earlier: str, claimed: bool) -> None:
    """Nobody would publish it, and the new writer gets what comes after it."""
    history.run(sink="files:/data/orders")  # and dies
    if claimed:
        history.run()
    writer = taken(None, earlier)

    def start(barrier: int | None, *, accept: bool = False) -> None:
        recorded = WriterRecord(history.state(), claimed=claimed)
        behind = None if barrier is None else BatchId(barrier)
        require_earlier(JOB, writer, behind, recorded, may_be_empty=True, accept=accept, warn=lambda text: None)

    with pytest.raises(Conflict, match="the last run wrote to files:/data/orders") as refused:
        start(10)
    assert "--accept-sink" in (refused.value.hint or "")
    start(None)
    start(10, accept=True)
    history.run()
    history.run()
    start(10)


class Table(IdempotentWriter):
    """It may keep no record of a batch without rows."""

    def own_writer(self, directory: Any, *, new_line: bool = False) -> Taken:
        return replace(super().own_writer(directory, new_line=new_line), earlier="reported")


@pytest.mark.parametrize(("newest", "planned", "used"), [(3, 5, False), (3, 2, True), (1, 5, True), (5, 5, True)])
def test_a_directory_is_left_where_the_plans_of_what_the_sink_lacks_are_there(
    tmp_path: Path, newest: int, planned: int, used: bool
) -> None:
    """After a crash nobody knows what it had. From the checkpoint, with the plans, it is exact in any case."""
    kept = Kept(tmp_path, "require")
    kept.history.complete(1, batch=2, writer_has=BatchId(2))
    for batch in range(3, planned + 1):
        kept.keep(batch)
    directory = Directory(tmp_path / "left")
    directory.write_atomic("commits/5", b"v1\n{}")
    why = catching_up(kept, Table(stateful=False, newest=newest), "refuse").lost(cast(Any, directory))
    assert (why is None) is used


def test_a_function_of_the_user_that_fails_says_nothing() -> None:
    def fails() -> Taken:
        raise RuntimeError("the database is away")

    assert asked(fails) is None
