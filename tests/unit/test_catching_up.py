"""A directory is brought to where the plans end, and a batch that a sink has skipped is not taken for one that ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from holdfast.errors import Conflict, Fenced, HomeReplaced, StorageError, StorageUnreachable
from holdfast.identifiers import BatchId, JobName
from holdfast.plans.query_id import query_id
from holdfast.plans.replay import How, Repeat
from holdfast.plans.spark_logs import put_in_place
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_folder, plan_key
from holdfast.runtime.own_writer import Taken
from holdfast.runtime.plans.catching_up import CatchingUp
from holdfast.runtime.recovery.recovery import Resumed
from tests.unit.job_histories import History
from tests.unit.test_keeping_plans import AWAY, OFFSETS, Kept
from tests.unit.test_plans import Folder


class Directory(Folder):
    location = "/work/1-1"

    def newest_barrier(self) -> BatchId | None:
        return max((BatchId(int(name)) for name in self.names("commits") if name.isdigit()), default=None)


class IdempotentWriter:
    """As Spark does with a sink that skips batch ids that it has seen; `another` has got there first."""

    sink = None

    def __init__(self, *, stateful: bool, another: int | None = None, newest: int | None = None) -> None:
        self.stateful = stateful
        self.newest = newest
        self.another = another
        self.ran: list[tuple[int, How]] = []
        self.asked_for: list[str] = []

    def own_writer(self, directory: Any, *, new_line: bool = False) -> Taken:
        self.asked_for += [directory.read("metadata").decode()] if "metadata" in directory.names() else []
        return Taken("the table", None if self.newest is None else BatchId(self.newest), known=True)

    def repeat(self, directory: Directory, steps: Sequence[Repeat]) -> None:
        for step in steps:
            put_in_place(directory, step.plan)
            if step.how is How.LEAVE:
                return
            self.ran.append((step.batch_id, step.how))
            skipped = step.how is How.WRITE and step.batch_id == self.another
            if self.stateful:
                directory.write_atomic("state/0/_metadata/metadata", b"v1")
            if self.stateful and not skipped:
                directory.write_atomic(f"state/0/0/{step.batch_id + 1}.delta", b"state")
            directory.write_atomic(f"commits/{step.batch_id}", b"v1\n{}")
            directory.write_atomic(f"commits/.{step.batch_id}.crc", b"crc")


def caught_up(root: Path, query: IdempotentWriter, batches: int, repeats: Any = "refuse") -> Directory:
    kept = Kept(root, "require")
    for batch in range(batches):
        kept.keep(batch)
    directory = Directory(root / "restored")
    catching_up(kept, query, repeats).catch_up(cast(Any, directory))
    return directory


def catching_up(kept: Kept, query: IdempotentWriter, repeats: Any) -> CatchingUp:
    return CatchingUp(
        job=JobName("orders"),
        query=cast(Any, query),
        journal=kept.history.journal,
        keeper=kept.keeper,
        repeats=repeats,
        host="here",
        clock=cast(Any, kept.clock),
    )


class SlowWriter(IdempotentWriter):
    """Each batch that runs again takes four seconds."""

    def __init__(self, kept: Kept, *, newest: int) -> None:
        super().__init__(stateful=True, newest=newest)
        self._clock = kept.clock

    def repeat(self, directory: Directory, steps: Sequence[Repeat]) -> None:
        super().repeat(directory, steps)
        self._clock.now += 4.0 * sum(step.how in (How.DISCARD, How.WRITE) for step in steps)


def test_how_long_a_batch_takes_again_is_measured(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    for batch in range(5):
        kept.keep(batch)
    catching = catching_up(kept, SlowWriter(kept, newest=2), "refuse")
    assert catching.repeated_s is None
    directory = Directory(tmp_path / "restored")
    catching.catch_up(cast(Any, directory))
    assert catching.repeated_s == 4.0, "three were discarded, one was written, one is left to the query"
    directory.write_atomic("commits/4", b"v1\n{}")
    catching.catch_up(cast(Any, directory))
    assert catching.repeated_s == 4.0, "nothing was to be repeated: what was measured before stands"


def test_a_first_batch_that_another_run_wrote_meanwhile_is_run_for_the_sake_of_its_state(tmp_path: Path) -> None:
    """A run that was taken over alive writes batch 0 between the question what the sink has and the write."""
    query = IdempotentWriter(stateful=True, another=0)
    directory = caught_up(tmp_path, query, 1)
    assert query.ran == [(0, How.WRITE), (0, How.DISCARD)]
    assert directory.names("state/0/0") == ["1.delta"]
    assert directory.newest_barrier() == 0


def test_a_first_batch_that_ran_is_run_once(tmp_path: Path) -> None:
    query = IdempotentWriter(stateful=True)
    directory = caught_up(tmp_path, query, 2)
    assert query.ran == [(0, How.WRITE)]
    assert directory.read("offsets/1") == OFFSETS, "the query begins with the one that is left"


def test_what_the_sink_has_is_discarded_and_the_rest_is_written(tmp_path: Path) -> None:
    query = IdempotentWriter(stateful=True, newest=1)
    caught_up(tmp_path, query, 4)
    assert query.ran == [(0, How.DISCARD), (1, How.DISCARD), (2, How.WRITE)]


def test_a_run_that_slept_does_not_repeat_what_a_newer_run_has_planned(tmp_path: Path) -> None:
    """Else the newer run's own writer would skip its first batch, and its state would be missing (seed 1082)."""
    kept = Kept(tmp_path, "require")
    kept.by_another(0, epoch=9)
    query = IdempotentWriter(stateful=True)
    with pytest.raises(Fenced, match="run 9 has planned batch 0"):
        catching_up(kept, query, "refuse").catch_up(cast(Any, Directory(tmp_path / "restored")))
    assert query.ran == []


@pytest.mark.parametrize("error", [HomeReplaced("the home is another one"), StorageUnreachable("no connection")])
def test_plans_are_not_repeated_from_a_home_that_is_not_proved_to_be_this_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: StorageError
) -> None:
    """Two runs were awake in a home that was put back: one repeated the batches of the other (seed 15805)."""
    kept = Kept(tmp_path, "prefer")
    kept.keep(0)
    directory = Directory(tmp_path / "work")
    directory.write_atomic("offsets/0", OFFSETS)
    directory.write_atomic("commits/0", b"v1\n{}")
    for batch in (1, 2):
        kept.by_another(batch, epoch=kept.history.journal.fencing_epoch)
    monkeypatch.setattr(Journal, "require_standing", raising(error))
    query = IdempotentWriter(stateful=True, newest=0)
    catching_up(kept, query, "refuse").catch_up(cast(Any, directory))
    assert query.ran == []
    assert "1" not in directory.names("offsets"), "the query plans batch 1 itself"


def test_a_run_that_cannot_tell_whether_it_was_overtaken_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sink has beyond the plans may be of a newer run (seed 16725)."""
    kept = Kept(tmp_path, "prefer")
    monkeypatch.setattr(Journal, "require_standing", raising(StorageUnreachable("no connection")))
    query = IdempotentWriter(stateful=True, newest=0)
    with pytest.raises(StorageUnreachable, match="no connection"):
        catching_up(kept, query, "refuse").catch_up(cast(Any, Directory(tmp_path / "restored")))


def raising(error: Exception) -> Callable[[object], None]:
    def fail(_: object) -> None:
        raise error

    return fail


def test_a_home_that_does_not_answer_keeps_a_query_from_its_restart_only_elsewhere(tmp_path: Path) -> None:
    """Simulation, seed 6320: one read of a plan failed while a checkpoint was taken in place of an unreadable
    directory, and the job ended with the words of a lost plan."""
    kept = Kept(tmp_path, "prefer")
    for batch in range(3):
        kept.keep(batch)
    kept.store.faults = AWAY
    query = IdempotentWriter(stateful=True, newest=2)
    with pytest.raises(StorageUnreachable):
        catching_up(kept, query, "refuse").catch_up(cast(Any, Directory(tmp_path / "restored")))
    same = Directory(tmp_path / "same")
    for batch in range(2):
        same.write_atomic(f"offsets/{batch}", OFFSETS)
        same.write_atomic(f"commits/{batch}", b"v1\n{}")
    catching_up(kept, query, "refuse").catch_up(cast(Any, same))
    assert query.ran == [(2, How.DISCARD)], "its plan is known"


def test_the_position_of_a_writer_that_takes_ids_again_may_be_of_another_line(tmp_path: Path) -> None:
    """It went back, and got batch 1 of the line that was left: that of this line is not discarded."""
    query = IdempotentWriter(stateful=True, newest=1)
    caught_up(tmp_path, query, 3, repeats="accept")
    assert query.ran == [(0, How.WRITE), (1, How.WRITE)]


def test_a_gap_is_refused_with_a_way_out(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    kept.history.complete(2, batch=0)
    kept.history.run()
    kept.keep(1)
    kept.keep(3)
    directory = Directory(tmp_path / "restored")
    directory.write_atomic("commits/0", b"v1\n{}")
    with pytest.raises(Conflict, match="no plan of batch 2, but one of 3") as refused:
        catching_up(kept, IdempotentWriter(stateful=True, newest=3), "refuse").catch_up(cast(Any, directory))
    assert "--from-checkpoint 2 --repeats accept" in (refused.value.hint or "")


def test_a_run_that_slept_is_fenced_not_refused_for_a_gap_that_a_newer_run_has_made(tmp_path: Path) -> None:
    """The newer run's checkpoints made the first plans needless, and it deleted them (seeds 3985, 40166)."""
    kept = Kept(tmp_path, "require")
    successor = History(kept.history.home, attempts="successor")
    successor.journal.load()
    successor.run()
    kept.by_another(6, epoch=successor.journal.fencing_epoch)
    with pytest.raises(Fenced):
        catching_up(kept, IdempotentWriter(stateful=True, newest=6), "refuse").catch_up(
            cast(Any, Directory(tmp_path / "restored"))
        )


def test_plans_that_vanish_between_the_comparison_and_the_repetition_are_missed(tmp_path: Path) -> None:
    """Another home took the place of this one: batches that the sink has would be cut anew, and skipped (seed 0)."""
    kept = Kept(tmp_path, "require")
    kept.history.complete(2, batch=0)
    kept.history.run()
    kept.keep(1)
    directory = Directory(tmp_path / "restored")
    directory.write_atomic("commits/0", b"v1\n{}")
    query = IdempotentWriter(stateful=True, newest=3)
    with pytest.raises(Conflict, match="the home has no plan of batch 2; the table may have that batch"):
        catching_up(kept, query, "refuse").catch_up(cast(Any, directory))
    assert query.ran == []


def test_plans_that_vanish_are_missed_though_the_writer_cannot_be_asked(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "require")
    kept.keep(0)
    kept.keep(1)
    directory = Directory(tmp_path / "restored")
    query = IdempotentWriter(stateful=True)
    query.own_writer = lambda directory, *, new_line=False: Taken("the function", None, known=False)  # type: ignore[method-assign]
    starting = catching_up(kept, query, "refuse")
    point = Resumed(barrier=None, durable=None, directory=cast(Any, directory))
    assert starting.require_no_skips(point, lambda batch: False) is not None
    kept.history.store.delete(plan_key(line_folder(kept.history.state()), BatchId(1)))
    with pytest.raises(Conflict, match="the home has no plan of batch 1; the function may have that batch"):
        starting.catch_up(cast(Any, directory))
    assert query.ran == []


@pytest.mark.parametrize(("always_skips", "refused"), [(True, True), (False, False)])
def test_batches_of_two_lines_are_not_repeated_where_the_sink_knows_them_by_their_id(
    tmp_path: Path, always_skips: bool, refused: bool
) -> None:
    """The job went back to a checkpoint after batch 0, wrote batch 1 and died, and that checkpoint is damaged."""
    kept = Kept(tmp_path, "require")
    kept.keep(1)
    (later,) = kept.keeper.log().behind(BatchId(0)).plans
    earlier = msgspec.structs.replace(later, batch_id=BatchId(0), metadata='{"id":"before"}')
    directory = Directory(tmp_path / "restored")
    query = IdempotentWriter(stateful=True)
    has = Taken("the table", BatchId(0), known=True, always_skips=always_skips)
    query.own_writer = lambda directory, *, new_line=False: has  # type: ignore[method-assign]
    starting = catching_up(kept, query, "refuse")

    def start() -> None:
        starting.catch_up(cast(Any, directory), [earlier])

    if refused:
        with pytest.raises(Conflict, match="batches from 1 on cannot be repeated: the table knows them by another id"):
            start()
        assert query.ran == []
    else:
        start()
        assert query.ran == [(0, How.DISCARD)]
        assert "1" in directory.names("offsets"), "the query itself begins with the last one"


def test_a_sink_is_asked_for_the_id_in_the_plans_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    """Delta and Iceberg know a batch by the query's id. Without it they would be said to have nothing."""
    query = IdempotentWriter(stateful=True, newest=1)
    caught_up(tmp_path, query, 2)
    assert [query_id(asked) for asked in query.asked_for] == ["query"]


class PutBack(IdempotentWriter):
    """Spark's file sink, from an older copy."""

    def own_writer(self, directory: Any, *, new_line: bool = False) -> Taken:
        return replace(super().own_writer(directory, new_line=new_line), earlier="all")


@pytest.mark.parametrize(("newest", "used"), [(None, True), (1, True), (2, False), (4, False), (5, True)])
def test_a_directory_is_not_used_when_the_sink_lacks_what_only_the_plans_can_repeat(
    tmp_path: Path, newest: int | None, used: bool
) -> None:
    """Before the checkpoint, at batch 2, nobody can repeat it either: that is refused elsewhere."""
    kept = Kept(tmp_path, "require")
    kept.history.complete(1, batch=2)
    directory = Directory(tmp_path / "left")
    directory.write_atomic("commits/5", b"v1\n{}")
    why = catching_up(kept, PutBack(stateful=False, newest=newest), "refuse").lost(cast(Any, directory))
    assert (why is None) is used
