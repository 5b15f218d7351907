"""What Spark says of finished batches, in a bounded number of records."""

from datetime import UTC, datetime, timedelta

from holdfast.identifiers import BatchId
from holdfast.repository.batch_spans import KEPT, behind, summed_up, upto
from holdfast.repository.entries import BatchSpan
from holdfast.runtime.lanes import Lane, Work
from holdfast.runtime.reports.batch_watch import BatchWatch

BEGIN = datetime(2026, 11, 18, 9, tzinfo=UTC)


def batch(number: int) -> BatchSpan:
    at = BEGIN + timedelta(seconds=number)
    return BatchSpan(BatchId(number), BatchId(number), at, 100 + number, 100 + number, 10, 7 * number)


def batches(first: int, last: int) -> tuple[BatchSpan, ...]:
    return tuple(batch(number) for number in range(first, last + 1))


def test_a_few_batches_stay_as_they_are() -> None:
    assert summed_up(batches(3, 3 + KEPT - 1)) == batches(3, 3 + KEPT - 1)


def test_many_batches_are_added_up_and_nothing_is_lost() -> None:
    held = summed_up(batches(0, 99))
    assert len(held) <= KEPT
    assert sum(span.rows for span in held) == 1000
    assert sum(span.ms for span in held) == sum(100 + number for number in range(100))
    assert [span.first for span in held[1:]] == [span.last + 1 for span in held[:-1]]
    assert (held[-1].last, held[-1].at, held[-1].longest_ms, held[-1].state_rows) == (99, batch(99).at, 199, 693)


def test_batches_that_do_not_follow_one_another_stay_apart() -> None:
    odd = tuple(batch(number) for number in range(1, 60, 2))
    assert summed_up(odd) == odd[-KEPT:]


def test_the_ends_of_what_is_known() -> None:
    assert upto(batches(1, 5), BatchId(3)) == batches(1, 3)
    assert behind(batches(1, 5), BatchId(3)) == batches(4, 5)


class LanesOfOne:
    """Does at once what is submitted."""

    def submit(self, lane: Lane, work: Work) -> None:
        assert lane == "batches"
        work()


def watch(told: list[BatchSpan]) -> BatchWatch:
    return BatchWatch(lambda after: behind(told, after), LanesOfOne(), lambda take: take())  # type: ignore[arg-type]


def test_what_spark_tells_late_is_asked_for_again() -> None:
    told: list[BatchSpan] = []
    watching = watch(told)
    watching.poll(BatchId(0))
    assert watching.latest == ()
    told += batches(0, 0)
    watching.poll(BatchId(0))
    assert watching.latest == batches(0, 0)


def test_a_checkpoint_takes_what_it_contains_and_leaves_the_rest() -> None:
    watching = watch([*batches(0, 6)])
    watching.poll(BatchId(6))
    assert watching.upto(BatchId(4)) == batches(0, 4)
    watching.recorded(batches(0, 4))
    assert watching.latest == batches(5, 6)
    watching.recorded(batches(5, 6))
    watching.poll(BatchId(6))
    assert watching.latest == ()


def test_what_spark_tells_while_a_checkpoint_is_recorded_is_for_the_next() -> None:
    told = [*batches(0, 3)]
    watching = watch(told)
    watching.poll(BatchId(4))
    entry = watching.upto(BatchId(4))
    told += batches(4, 4)
    watching.poll(BatchId(4))
    watching.recorded(entry)
    assert watching.latest == batches(4, 4)


def test_after_a_restart_further_back_batches_are_told_of_again() -> None:
    told = [*batches(0, 6)]
    watching = watch(told)
    watching.poll(BatchId(6))
    watching.recorded(batches(0, 4))
    told[:] = batches(5, 7)
    watching.resumed(BatchId(4))
    watching.poll(BatchId(7))
    assert [span.first for span in watching.latest] == [5, 6, 5, 6, 7]


def test_spark_is_not_asked_for_ever() -> None:
    asked: list[int] = []

    def ask(after: BatchId) -> tuple[BatchSpan, ...]:
        asked.append(after)
        return ()

    watching = BatchWatch(ask, LanesOfOne(), lambda take: take())  # type: ignore[arg-type]
    for _ in range(100):
        watching.poll(BatchId(3))
    assert len(asked) == 25
    watching.poll(BatchId(4))
    assert len(asked) == 26
