"""Two jobs that were made of the same query: the second to start would write what the first has written.

A sink that reports its newest batch shows that itself. Of a writer that cannot be asked, the other job's journal tells.
That it is refused with real Spark: `tests/spark/test_adopt.py`.
"""

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict
from holdfast.identifiers import BatchId, JobName
from holdfast.repository.entries import Adopted, RunEnded, RunStarted
from holdfast.runtime.own_writer import Taken, require_alone
from holdfast.runtime.run.original import adopted_by, other_that_went_on
from holdfast.storage.local import LocalStore
from tests.unit.job_histories import History
from tests.unit.test_copying import claimed

FIRST, SECOND = JobName("first"), JobName("second")
QUERY = Adopted("/checkpoints/orders", "the-id", BatchId(11))


def made(home: Path, job: JobName, adopted: Adopted = QUERY) -> History:
    history = History(home, job)
    history.journal.claim(lambda stamp: claimed(stamp, lineage=job, purpose="maintenance"))
    history.complete(1, batch=10, adopted=adopted)
    history._append(RunEnded, reason="stopped")
    return history


def ended(history: History, planned: int | None, **how: Any) -> None:
    history._append(RunEnded, reason="stopped", planned=None if planned is None else BatchId(planned), **how)


def found(home: Path) -> JobName | None:
    return other_that_went_on(LocalStore(home), SECOND, QUERY)


def test_one_that_has_run_on_is_found(tmp_path: Path) -> None:
    history = made(tmp_path, FIRST)
    made(tmp_path, SECOND)
    assert found(tmp_path) is None, "it has not run"
    history.run()
    assert found(tmp_path) == FIRST, "it runs, or has died"
    ended(history, 12)
    assert found(tmp_path) == FIRST
    history.run()
    ended(history, None)
    assert found(tmp_path) == FIRST, "nobody knows how far it was"


def test_one_that_wrote_nothing_behind_the_original_is_none(tmp_path: Path) -> None:
    """It ended before plain Spark went on from there; or it could not start."""
    history = made(tmp_path, FIRST)
    history.run()
    ended(history, 11)
    history.run()
    ended(history, None, never_ran=True)
    assert found(tmp_path) is None


def test_one_of_another_query_or_with_a_sink_of_holdfast_is_none(tmp_path: Path) -> None:
    made(tmp_path, FIRST, Adopted("/checkpoints/other", "another-id", BatchId(11))).run()
    made(tmp_path, JobName("third")).run(sink="delta:/data/third")
    assert found(tmp_path) is None


def test_a_journal_that_cannot_be_read_hides_no_other_job(tmp_path: Path) -> None:
    made(tmp_path, JobName("broken"))
    entry = next((tmp_path / "broken" / "journal").iterdir())
    entry.write_bytes(entry.read_bytes()[:-3])
    made(tmp_path, FIRST).run()
    assert found(tmp_path) == FIRST


def test_after_its_own_first_run_a_job_looks_no_more(tmp_path: Path) -> None:
    history = made(tmp_path, SECOND)
    assert adopted_by(history.state()) == QUERY
    history.run()
    assert isinstance(history.state().pipeline, RunStarted)
    assert adopted_by(history.state()) is None


def test_a_writer_that_cannot_be_asked_is_refused_unless_told() -> None:
    unknown = Taken("the query's own writer (foreachBatch)", None, known=False)
    with pytest.raises(Conflict, match="job 'first' of this home was made of the same query") as refused:
        require_alone(SECOND, unknown, "refuse", lambda: FIRST)
    assert "--repeats accept" in (refused.value.hint or "")
    require_alone(SECOND, unknown, "accept", lambda: FIRST)
    require_alone(SECOND, unknown, "refuse", lambda: None)
    kafka = Taken("the kafka sink", None, known=True)
    with pytest.raises(Conflict):
        require_alone(SECOND, kafka, "refuse", lambda: FIRST)


def test_a_sink_that_reports_its_newest_batch_is_compared_with_that() -> None:
    table = Taken("the table", BatchId(14), known=True, earlier="reported")
    require_alone(SECOND, table, "refuse", lambda: FIRST)
