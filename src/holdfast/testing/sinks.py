"""The conformance suite for sinks: a sink is exactly-once when it passes.

Subclass it in a test module, next to a `spark` fixture:

    class TestMySink(SinkConformance):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path / "out"

        def make_sink(self, step=no_step):
            return MySink(self.path, step=step)

        def read_rows(self, spark):
            return [(row.id, row.text) for row in spark.read.parquet(str(self.path)).collect()]

A sink that calls `step` between its steps is also killed, and overtaken by a newer run, at each of them.

A subclass may define further methods, which do to the place what others might do. Tests that need a missing one are
skipped:

        def everything(self):             all files at the place, or any value that changes when the place does
        def copy(self):                   copy the whole place
        def put_copy_back(self):          replace the place by that copy
        def empty(self):                  delete everything at the place
        def replace(self):                put another place of the same kind there, as another program would
        def rewrite(self):                rewrite published rows, so that batches can no longer be told apart
        def lose(self, staged):           delete a file that was staged
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest

from holdfast.errors import Conflict, Fenced, HoldfastError
from holdfast.identifiers import AttemptId, BatchId, FencingEpoch, JobName
from holdfast.sinks.protocol import (
    RewindPlan,
    Sink,
    SinkContext,
    SinkState,
    StagedBatch,
    Step,
    fingerprint,
    no_step,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id BIGINT, text STRING"
Row = tuple[int, str]


class Cut(BaseException):
    """The process is killed here. No sink may catch it."""


class AtStep:
    """A hook that does something once, at the step with a given number."""

    def __init__(self, number: int, act: Callable[[], None]) -> None:
        self._left = number
        self._act = act
        self.acted = False

    def __call__(self, _: str) -> None:
        self._left -= 1
        if self._left == -1:
            self.acted = True
            self._act()


def cut_at(number: int) -> AtStep:
    def die() -> None:
        raise Cut

    return AtStep(number, die)


class Batches:
    """Rows that name their job, batch and attempt, so that a missing or duplicate row is always detected."""

    def __init__(self, spark: SparkSession, offset: int = 0) -> None:
        self._spark = spark
        self._offset = offset

    def rows(self, *batches: int, attempt: str = "a") -> list[Row]:
        return sorted((id_, f"{batch}{attempt}") for batch in batches for id_ in self._ids(batch))

    def frame(self, batch: int, attempt: str = "a") -> DataFrame:
        ids = self._ids(batch)
        return self._spark.range(ids.start, ids.stop, 1, 2).selectExpr("id", f"'{batch}{attempt}' AS text")

    def stage(self, sink: Sink, *batches: int, attempt: str = "a") -> tuple[StagedBatch, ...]:
        return tuple(sink.stage(self.frame(batch, attempt), BatchId(batch)) for batch in batches)

    def _ids(self, batch: int) -> range:
        return range(self._offset + batch * 10, self._offset + batch * 10 + 3)


class SinkConformance:
    def make_sink(self, step: Step = no_step) -> Sink:
        """A new, unopened handle on the same place each time; the place is empty when a test starts."""
        raise NotImplementedError

    def read_rows(self, spark: SparkSession) -> list[Row]:
        """The columns `id` and `text` of the rows that a reader sees now, in any order."""
        raise NotImplementedError

    def everything(self) -> object:
        """Compares equal as long as nothing at the place was changed."""
        pytest.skip("everything() is not given")

    def copy(self) -> None:
        pytest.skip("copy() is not given")

    def put_copy_back(self) -> None:
        pytest.skip("put_copy_back() is not given")

    def empty(self) -> None:
        pytest.skip("empty() is not given")

    def replace(self) -> None:
        pytest.skip("replace() is not given")

    def rewrite(self) -> None:
        pytest.skip("rewrite() is not given")

    def lose(self, staged: StagedBatch) -> None:
        pytest.skip("lose() is not given")

    def opened(
        self,
        spark: SparkSession,
        epoch: int,
        *,
        job: str = "orders",
        lineage: str | None = None,
        step: Step = no_step,
        claim: str = "",
        new_life: bool = False,
        accept: bool = False,
    ) -> Sink:
        """Two jobs never have the same lineage, unless one is a copy of the other."""
        lineage = lineage or ("home-1" if job == "orders" else f"home-1 of {job}")
        sink = self.make_sink(step)
        schema = spark.createDataFrame([], SCHEMA).schema
        context = SinkContext(JobName(job), FencingEpoch(epoch), lineage, AttemptId(claim), new_life, accept)
        sink.open(context, spark, schema)
        return sink

    def looked(self, spark: SparkSession, epoch: int, lineage: str = "home-1") -> tuple[Sink, SinkState]:
        """A sink that is not open, as recovery uses it to plan."""
        sink = self.make_sink()
        context = SinkContext(JobName("orders"), FencingEpoch(epoch), lineage)
        return sink, sink.look(context, spark, spark.createDataFrame([], SCHEMA).schema)

    def publishing(self, spark: SparkSession, *batches: int, epoch: int = 1) -> Sink:
        """A run that published these batches, each with its own checkpoint."""
        sink = self.opened(spark, epoch)
        for staged in Batches(spark).stage(sink, *batches):
            sink.publish(staged.batch_id, (staged,))
        return sink

    def assert_refused(self, spark: SparkSession, upto: int) -> None:
        """A newer run cannot publish batch `upto`, the only batch in its ledger."""
        before = sorted(self.read_rows(spark))
        with pytest.raises(Conflict):
            self._publish_one(spark, 7, upto)
        assert sorted(self.read_rows(spark)) == before

    def _publish_one(self, spark: SparkSession, epoch: int, batch: int) -> None:
        sink = self.opened(spark, epoch)
        sink.publish(BatchId(batch), Batches(spark).stage(sink, batch))

    def assert_rows(self, spark: SparkSession, expected: list[Row]) -> None:
        assert sorted(self.read_rows(spark)) == sorted(expected)

    # -- one run

    def test_staged_rows_are_invisible(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        staged = batches.stage(sink, 0)
        assert staged[0].batch_id == 0
        assert staged[0].fencing_epoch == 1
        self.assert_rows(spark, [])
        assert sink.published() is None

    def test_publish_shows_exactly_the_batches_up_to_the_given_one(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        ledger = batches.stage(sink, 0, 1, 2)
        sink.publish(BatchId(1), ledger)
        self.assert_rows(spark, batches.rows(0, 1))
        assert sink.published() == 1
        sink.publish(BatchId(2), ledger)
        self.assert_rows(spark, batches.rows(0, 1, 2))
        assert sink.published() == 2

    def test_repeated_and_reordered_publishes_change_nothing(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        ledger = batches.stage(sink, 0, 1)
        sink.publish(BatchId(1), ledger)
        for upto in (1, 0, 1):
            sink.publish(BatchId(upto), ledger)
            self.assert_rows(spark, batches.rows(0, 1))
            assert sink.published() == 1

    def test_staging_a_batch_again_replaces_it(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        batches.stage(sink, 0, attempt="a")
        ledger = batches.stage(sink, 0, attempt="b")
        sink.publish(BatchId(0), ledger)
        self.assert_rows(spark, batches.rows(0, attempt="b"))

    def test_a_batch_without_rows_is_published(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        empty = sink.stage(batches.frame(0).where("id < 0"), BatchId(0))
        sink.publish(BatchId(0), (empty,))
        assert sink.published() == 0
        self.assert_rows(spark, [])

    def test_a_gap_in_the_ledger_is_named_and_nothing_is_shown(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        ledger = batches.stage(sink, 0, 1, 2)
        for broken, named in (((), "batch 0 to 2"), (ledger[1:], "batch 0"), ((ledger[0], ledger[2]), "batch 1")):
            with pytest.raises(Conflict, match=named):
                sink.publish(BatchId(2), broken)
            assert sink.published() is None
            self.assert_rows(spark, [])
        sink.publish(BatchId(0), ledger)
        with pytest.raises(Conflict, match="batch 1"):
            sink.publish(BatchId(2), (ledger[2],))
        self.assert_rows(spark, batches.rows(0))

    # -- recovery

    def test_a_newer_run_publishes_what_an_older_one_staged(self, spark: SparkSession) -> None:
        batches = Batches(spark)
        ledger = batches.stage(self.opened(spark, 1), 0, 1)
        newer = self.opened(spark, 2)
        assert newer.published() is None
        newer.publish(BatchId(1), ledger)
        self.assert_rows(spark, batches.rows(0, 1))
        assert newer.published() == 1
        assert self.opened(spark, 3).published() == 1

    def test_opening_twice_changes_nothing(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        sink.publish(BatchId(0), batches.stage(sink, 0))
        again = self.opened(spark, 1)
        assert again.published() == 0
        again.publish(BatchId(1), batches.stage(again, 1))
        self.assert_rows(spark, batches.rows(0, 1))

    def test_rewind_takes_back_and_other_contents_can_follow(self, spark: SparkSession) -> None:
        older, batches = self.opened(spark, 1), Batches(spark)
        older.publish(BatchId(2), batches.stage(older, 0, 1, 2))
        newer = self.opened(spark, 2)
        newer.rewind(BatchId(0))
        self.assert_rows(spark, batches.rows(0))
        assert newer.published() == 0
        newer.rewind(BatchId(0))
        newer.rewind(BatchId(1))
        assert newer.published() == 0
        newer.discard(())
        newer.publish(BatchId(1), batches.stage(newer, 1, attempt="b"))
        self.assert_rows(spark, batches.rows(0) + batches.rows(1, attempt="b"))
        assert newer.published() == 1

    def test_rewind_to_nothing(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        sink.rewind(None)
        assert sink.published() is None
        sink.publish(BatchId(1), batches.stage(sink, 0, 1))
        sink.rewind(None)
        assert sink.published() is None
        self.assert_rows(spark, [])
        newer = self.opened(spark, 2)
        assert newer.published() is None
        newer.publish(BatchId(0), batches.stage(newer, 0, attempt="b"))
        self.assert_rows(spark, batches.rows(0, attempt="b"))

    def test_discard_deletes_leftovers_but_neither_kept_nor_published_batches(self, spark: SparkSession) -> None:
        older, batches = self.opened(spark, 1), Batches(spark)
        published, kept, left = batches.stage(older, 0, 1, 2)
        older.publish(BatchId(0), (published,))
        newer = self.opened(spark, 2)
        for _ in range(2):
            newer.discard((kept,))
            self.assert_rows(spark, batches.rows(0))
        newer.publish(BatchId(1), (published, kept))
        self.assert_rows(spark, batches.rows(0, 1))
        with pytest.raises(HoldfastError):
            newer.publish(BatchId(2), (left,))
        self.assert_rows(spark, batches.rows(0, 1))
        assert newer.published() == 1

    # -- two runs, two jobs

    def test_an_older_run_is_refused_and_shows_nothing(self, spark: SparkSession) -> None:
        older, batches = self.opened(spark, 1), Batches(spark)
        older.publish(BatchId(0), batches.stage(older, 0))
        ledger = batches.stage(older, 1)
        newer = self.opened(spark, 2)
        for forbidden in (
            lambda: older.publish(BatchId(1), ledger),
            lambda: older.publish(BatchId(0), ledger),
            lambda: older.rewind(None),
            lambda: older.discard(()),
            lambda: self.opened(spark, 1),
        ):
            with pytest.raises(Fenced):
                forbidden()
        self.assert_rows(spark, batches.rows(0))
        newer.publish(BatchId(1), ledger)
        self.assert_rows(spark, batches.rows(0, 1))
        with pytest.raises(Fenced):
            older.publish(BatchId(1), ledger)
        self.assert_rows(spark, batches.rows(0, 1))

    def test_other_jobs_in_the_same_place_are_not_touched(self, spark: SparkSession) -> None:
        mine, other = self.opened(spark, 7), self.opened(spark, 1, job="orders-2", lineage="home-2")
        my_rows, its_rows = Batches(spark), Batches(spark, offset=1000)
        its_staged = its_rows.stage(other, 0, 1)
        other.publish(BatchId(0), its_staged)
        mine.publish(BatchId(0), my_rows.stage(mine, 0))
        mine.rewind(None)
        mine.discard(())
        self.assert_rows(spark, its_rows.rows(0))
        assert mine.published() is None
        assert other.published() == 0
        other.publish(BatchId(1), its_staged)
        self.assert_rows(spark, its_rows.rows(0, 1))

    # -- what others do to the place

    def test_a_look_says_what_the_place_knows_and_leaves_no_trace(self, spark: SparkSession) -> None:
        before = self.everything()
        assert self.looked(spark, 0, lineage="")[1] == SinkState()
        assert self.everything() == before
        self.opened(spark, 3, claim="a")
        self.publishing(spark, 0, 1, epoch=4)
        before = self.everything()
        for lineage in ("home-1", "home-2", ""):
            _, found = self.looked(spark, 4, lineage)
            assert (found.life, found.fencing_epoch, found.published) == (fingerprint("home-1"), 4, 1)
        assert self.everything() == before

    def test_an_emptied_place_gets_no_later_batches(self, spark: SparkSession) -> None:
        self.publishing(spark, 0, 1)
        self.empty()
        with pytest.raises(Conflict):
            self._publish_one(spark, 2, 2)
        sink, batches = self.opened(spark, 3, accept=True), Batches(spark)
        sink.publish(BatchId(2), batches.stage(sink, 2))
        self.assert_rows(spark, batches.rows(2))
        sink.publish(BatchId(3), batches.stage(sink, 3))
        assert self.opened(spark, 4).published() == 3

    def test_a_replaced_place_gets_no_later_batches(self, spark: SparkSession) -> None:
        self.publishing(spark, 0, 1)
        self.replace()
        self.assert_refused(spark, 2)

    def test_an_older_copy_gets_no_later_batches(self, spark: SparkSession) -> None:
        running = self.publishing(spark, 0)
        self.copy()
        running.publish(BatchId(1), Batches(spark).stage(running, 1))
        self.put_copy_back()
        self.assert_refused(spark, 2)

    def test_an_older_copy_is_gone_on_from_when_a_person_says_so(self, spark: SparkSession) -> None:
        running, batches = self.publishing(spark, 0), Batches(spark)
        self.copy()
        running.publish(BatchId(1), batches.stage(running, 1))
        self.put_copy_back()
        sink = self.opened(spark, 2, accept=True)
        sink.publish(BatchId(2), batches.stage(sink, 2))
        self.assert_rows(spark, batches.rows(0, 2))
        with pytest.raises(Conflict, match="batch 3"):
            sink.publish(BatchId(4), batches.stage(sink, 4))

    def test_another_life_is_refused_without_a_trace_and_a_new_one_fences_it(self, spark: SparkSession) -> None:
        old, batches = self.publishing(spark, 0, 1, epoch=7), Batches(spark)
        ledger = batches.stage(old, 2)
        before = self.everything()
        with pytest.raises(Conflict):
            self.opened(spark, 2, lineage="home-2")
        assert self.everything() == before
        new, its = self.opened(spark, 2, lineage="home-2", new_life=True), Batches(spark, offset=1000)
        assert new.published() is None
        new.publish(BatchId(0), its.stage(new, 0))
        with pytest.raises(Fenced):
            old.publish(BatchId(2), ledger)
        new.rewind(None)
        new.discard(())
        self.assert_rows(spark, batches.rows(0, 1))

    def test_one_epoch_of_two_claims_belongs_to_the_first(self, spark: SparkSession) -> None:
        first, batches = self.opened(spark, 3, claim="a"), Batches(spark)
        before = self.everything()
        with pytest.raises(Conflict):
            self.opened(spark, 3, claim="b")
        assert self.everything() == before
        self.opened(spark, 3, claim="a")
        first.publish(BatchId(0), batches.stage(first, 0))
        self.assert_rows(spark, batches.rows(0))

    def test_staged_files_that_are_gone_are_missed(self, spark: SparkSession) -> None:
        sink, batches = self.opened(spark, 1), Batches(spark)
        ledger = batches.stage(sink, 0, 1)
        sink.publish(BatchId(0), ledger)
        assert sink.lost(ledger) == (), "staged or visible"
        self.lose(ledger[1])
        assert set(sink.lost(ledger)) <= {file.path for file in ledger[1].files}
        assert sink.lost(ledger)
        for _ in range(2):
            with pytest.raises(HoldfastError):
                sink.publish(BatchId(1), ledger)
            assert sink.published() == 0
        self.opened(spark, 2).discard(())
        self.assert_rows(spark, batches.rows(0))

    def test_a_dry_rewind_says_what_goes_and_leaves_no_trace(self, spark: SparkSession) -> None:
        self.publishing(spark, 0, 1, 2)
        before = self.everything()
        sink, _ = self.looked(spark, 1)
        plan = sink.plan_rewind(BatchId(0))
        assert (plan.batches, plan.rows, plan.obstacle) == (2, 6, None)
        assert sink.plan_rewind(None).rows == 9
        assert sink.plan_rewind(BatchId(2)) == RewindPlan()
        assert self.everything() == before

    def test_a_rewind_with_an_obstacle_leaves_no_trace(self, spark: SparkSession) -> None:
        sink, batches = self.publishing(spark, 0, 1, 2), Batches(spark)
        self.rewrite()
        with suppress(Conflict):  # a sink may refuse such a place at the first look
            assert self.looked(spark, 1)[0].plan_rewind(BatchId(0)).obstacle is not None
        assert sink.plan_rewind(BatchId(0)).obstacle is not None
        before = self.everything()
        with pytest.raises(Conflict):
            sink.rewind(BatchId(0))
        assert self.everything() == before
        assert sink.published() == 2
        self.assert_rows(spark, batches.rows(0, 1, 2))

    # -- killed at every step. Each case is its own job, all in one place.

    def test_a_publish_cut_off_anywhere_is_completed_by_the_next_run(self, spark: SparkSession) -> None:
        expected: list[Row] = []
        for number in count():
            job, batches, hook = f"job-{number}", Batches(spark, number * 1000), cut_at(number)
            ledger = batches.stage(self.opened(spark, 1, job=job), 0, 1)
            with _maybe_cut():
                self.opened(spark, 2, job=job, step=hook).publish(BatchId(1), ledger)
            newer = self.opened(spark, 3, job=job)
            newer.publish(BatchId(1), ledger)
            newer.discard(())
            assert newer.published() == 1
            expected += batches.rows(0, 1)
            self.assert_rows(spark, expected)
            if not hook.acted:
                break

    def test_a_publish_cut_off_anywhere_is_undone_by_a_run_that_resumes_earlier(self, spark: SparkSession) -> None:
        expected: list[Row] = []
        for number in count():
            job, batches, hook = f"job-{number}", Batches(spark, number * 1000), cut_at(number)
            older = self.opened(spark, 1, job=job)
            ledger = batches.stage(older, 0, 1)
            older.publish(BatchId(0), ledger)
            with _maybe_cut():
                self.opened(spark, 2, job=job, step=hook).publish(BatchId(1), ledger)
            newer = self.opened(spark, 3, job=job)
            newer.rewind(BatchId(0))
            newer.discard(())
            assert newer.published() == 0
            expected += batches.rows(0)
            self.assert_rows(spark, expected)
            if not hook.acted:
                break

    def test_a_recovery_cut_off_anywhere_is_completed_by_the_next_run(self, spark: SparkSession) -> None:
        expected: list[Row] = []
        for number in count():
            job, batches, hook = f"job-{number}", Batches(spark, number * 1000), cut_at(number)
            older = self.opened(spark, 1, job=job)
            older.publish(BatchId(1), batches.stage(older, 0, 1))
            batches.stage(older, 2)
            with _maybe_cut():
                _resume_at_0(self.opened(spark, 2, job=job, step=hook))
            newer = self.opened(spark, 3, job=job)
            _resume_at_0(newer)
            self.assert_rows(spark, expected + batches.rows(0))
            newer.publish(BatchId(1), batches.stage(newer, 1, attempt="b"))
            assert newer.published() == 1
            expected += batches.rows(0) + batches.rows(1, attempt="b")
            self.assert_rows(spark, expected)
            if not hook.acted:
                break

    # -- overtaken at every step: the older run stalls there, the newer one acts, the older one continues.

    def test_a_publish_overtaken_anywhere_by_the_same_publish_shows_every_row_once(self, spark: SparkSession) -> None:
        expected: list[Row] = []
        for number in count():
            job, batches = f"job-{number}", Batches(spark, number * 1000)
            ledger = batches.stage(self.opened(spark, 1, job=job), 0, 1)

            def newer_publishes(job: str = job, ledger: tuple[StagedBatch, ...] = ledger) -> None:
                newer = self.opened(spark, 3, job=job)
                newer.publish(BatchId(1), ledger)
                newer.discard(())

            hook = AtStep(number, newer_publishes)
            with _maybe_fenced():
                self.opened(spark, 2, job=job, step=hook).publish(BatchId(1), ledger)
            expected += batches.rows(0, 1)
            self.assert_rows(spark, expected)
            if not hook.acted:
                break
            assert self.opened(spark, 4, job=job).published() == 1

    def test_a_publish_overtaken_anywhere_by_an_earlier_resume_shows_only_what_the_newer_run_wants(
        self, spark: SparkSession
    ) -> None:
        expected: list[Row] = []
        for number in count():
            job, batches = f"job-{number}", Batches(spark, number * 1000)
            older = self.opened(spark, 1, job=job)
            ledger = batches.stage(older, 0, 1)
            older.publish(BatchId(0), ledger)

            def newer_resumes_earlier(job: str = job, batches: Batches = batches) -> None:
                newer = self.opened(spark, 3, job=job)
                _resume_at_0(newer)
                newer.publish(BatchId(1), batches.stage(newer, 1, attempt="b"))

            hook = AtStep(number, newer_resumes_earlier)
            with _maybe_fenced():
                self.opened(spark, 2, job=job, step=hook).publish(BatchId(1), ledger)
            expected += batches.rows(0) + batches.rows(1, attempt="b" if hook.acted else "a")
            self.assert_rows(spark, expected)
            if not hook.acted:
                break
            assert self.opened(spark, 4, job=job).published() == 1

    def test_a_recovery_overtaken_anywhere_by_the_same_recovery_harms_nothing(self, spark: SparkSession) -> None:
        expected: list[Row] = []
        for number in count():
            job, batches = f"job-{number}", Batches(spark, number * 1000)
            older = self.opened(spark, 1, job=job)
            older.publish(BatchId(1), batches.stage(older, 0, 1))
            batches.stage(older, 2)

            def newer_recovers(job: str = job, batches: Batches = batches) -> None:
                newer = self.opened(spark, 3, job=job)
                _resume_at_0(newer)
                newer.publish(BatchId(1), batches.stage(newer, 1, attempt="b"))

            hook = AtStep(number, newer_recovers)
            with _maybe_fenced():
                _resume_at_0(self.opened(spark, 2, job=job, step=hook))
            expected += batches.rows(0) + (batches.rows(1, attempt="b") if hook.acted else [])
            self.assert_rows(spark, expected)
            if not hook.acted:
                break
            assert self.opened(spark, 4, job=job).published() == 1


def _resume_at_0(sink: Sink) -> None:
    sink.rewind(BatchId(0))
    sink.discard(())


def _maybe_cut() -> _Ends:
    return _Ends(Cut)


def _maybe_fenced() -> _Ends:
    """An overtaken run may notice it or may have finished before; only what readers see counts."""
    return _Ends(Fenced)


class _Ends:
    """A block that may end in the given way."""

    def __init__(self, kind: type[BaseException]) -> None:
        self._kind = kind

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kind)
