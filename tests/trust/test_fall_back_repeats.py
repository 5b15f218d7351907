"""A newest checkpoint that cannot be used takes no row back from readers: the batches behind an older one are repeated
as they were, from the plans that checkpoints hold."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.checkpoint.manifest import manifest_key
from holdfast.checkpoint.packed_plans import packed_range
from holdfast.cli.main import main
from holdfast.errors import Corrupt, StorageUnreachable
from holdfast.identifiers import BatchId, CheckpointId
from holdfast.plans.replay import Repeat
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.lines import line_folder, line_of, plan_key
from holdfast.runtime.recovery.recovery import Known
from tests.trust import delta_sink
from tests.trust.jobs_with_sinks import Job, SinkQuery, dying_at
from tests.trust.jobs_with_sinks import job as job
from tests.trust.test_damage_is_proved import MALFORMED
from tests.trust.test_published_batches import BATCH, started
from tests.unit.churning_runs import BATCHES_RETAINED, JOB, ChurningRun, manifest_of, state_of

SEEN = 4


def flip(job: Job, entry: CheckpointCompleted, others: Sequence[CheckpointCompleted]) -> None:
    """One byte of what this checkpoint alone has of the state."""
    shared = {file.key for other in others for file in manifest_of(job.home, other).files()}
    files = manifest_of(job.home, entry).files()
    file = next(file for file in files if file.path.startswith("state/") and file.key not in shared)
    path = job.home / JOB / file.key
    data = bytearray(path.read_bytes())
    data[file.offset] ^= 1
    path.write_bytes(data)


def damage(job: Job, newest: int = 1) -> list[int]:
    """That of so many of the newest checkpoints; their numbers."""
    entries = state_of(job.home).restorable()
    for entry in entries[:newest]:
        flip(job, entry, [other for other in entries if other.id < entry.id])
    return [entry.id for entry in entries[:newest]]


def lost_disk(job: Job, newest: int = 1) -> list[int]:
    """Readers have seen the batches of four checkpoints; of the newest so many are damaged."""
    job.lived(SEEN)
    job.wipe_work()
    return damage(job, newest)


def repeated(run: ChurningRun) -> list[int]:
    assert isinstance(run.query, SinkQuery)
    return run.query.repeated


@pytest.mark.parametrize(("newest", "batches"), [(1, [3]), (2, [2, 3]), (3, [1, 2, 3])])
def test_what_readers_see_is_repeated_and_the_line_goes_on(job: Job, newest: int, batches: list[int]) -> None:
    ids = lost_disk(job, newest)
    run = job.run()
    assert repeated(run) == batches
    job.require_rows(SEEN)
    state = state_of(job.home)
    assert (state.corrupt.keys(), state.abandoned, line_of(state)) == (set(ids), set(), 0)
    job.goes_on(run, 2, rows=SEEN + 2)
    job.wipe_work()
    job.lived(1)
    job.require_rows(SEEN + 3)


def test_a_fall_back_over_batches_that_were_repeated_is_a_longer_replay(job: Job) -> None:
    lost_disk(job)
    job.lived(2)
    job.wipe_work()
    damage(job, newest=2)
    run = job.run()
    assert repeated(run) == [3, 4, 5]
    job.require_rows(6)
    job.goes_on(run, 1, rows=7)


def test_killed_while_it_repeats_it_begins_the_replay_again(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    lost_disk(job, newest=3)
    repeat = SinkQuery.repeat

    def one(query: SinkQuery, directory: Any, steps: Sequence[Repeat]) -> None:
        repeat(query, directory, steps[:1])
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(SinkQuery, "repeat", one)
        with pytest.raises(KeyboardInterrupt):
            job.run()
    job.require_rows(SEEN)
    run = job.run()
    assert repeated(run) == [1, 2, 3], "the directory of the killed one ends before what readers see"
    job.goes_on(run, 1, rows=SEEN + 1)


def test_killed_behind_the_replay_it_resumes_in_that_directory(job: Job) -> None:
    lost_disk(job)
    killed = job.run(interval="1h")
    killed.query.batch()
    run = job.run()
    assert repeated(run) == []
    assert run.runtime._life.resumed.is_local
    job.goes_on(run, 1, rows=SEEN + 2)


def test_within_a_run_the_query_goes_on_behind_what_readers_see(job: Job) -> None:
    run = job.run(restart_delay="1s")
    run.batches(SEEN)
    damage(job)
    where = run.query.directory
    next(where.glob(f"state/0/0/{SEEN}.*")).write_bytes(b"other bytes")
    run.query.die(MALFORMED)
    run.wait(30.25)
    assert run.query.directory != where
    assert repeated(run) == [SEEN - 1]
    job.require_rows(SEEN)
    job.goes_on(run, 2, rows=SEEN + 2)
    assert not state_of(job.home).abandoned


@pytest.mark.parametrize("lost", ["the manifest", "every pack"])
def test_what_else_is_lost_of_a_checkpoint_is_no_loss_of_its_plans(job: Job, lost: str) -> None:
    job.lived(SEEN)
    job.wipe_work()
    newest, *older = state_of(job.home).restorable()
    shared = {file.key for entry in older for file in manifest_of(job.home, entry).files()}
    packs = {file.key for file in manifest_of(job.home, newest).files() if file.pack is not None}
    for key in [manifest_key(newest.manifest)] if lost == "the manifest" else packs - shared:
        (job.home / JOB / key).unlink()
    run = job.run()
    assert repeated(run) == [3]
    job.require_rows(SEEN)
    job.goes_on(run, 1, rows=SEEN + 1)


def test_a_checkpoint_is_restored_without_its_plans(job: Job) -> None:
    job.lived(SEEN)
    job.wipe_work()
    newest = state_of(job.home).restorable()[0]
    (plans,) = newest.packed
    (job.home / JOB / plans.key).write_bytes(b"?")
    run = job.run()
    assert run.runtime._life.resumed.checkpoint == newest.id
    job.require_rows(SEEN)
    job.goes_on(run, 1, rows=SEEN + 1)


def test_damage_of_plans_alone_rules_out_no_checkpoint(job: Job) -> None:
    """Several checkpoints name them, and each can be restored without."""
    job.lived(SEEN)
    job.wipe_work()
    entries = state_of(job.home).restorable()
    for file in {file.key for entry in entries for file in entry.packed}:
        (job.home / JOB / file).unlink()
    assert main(["verify", "--home", f"file://{job.home}", "--job", JOB, "--all", "--mark"]) == Corrupt.exit_code
    assert state_of(job.home).restorable() == entries
    run = job.run()
    assert run.runtime._life.resumed.checkpoint == entries[0].id
    job.require_rows(SEEN)
    job.goes_on(run, 1, rows=SEEN + 1)


def test_a_home_that_lost_plans_is_copied(job: Job) -> None:
    job.lived(SEEN)
    entries = state_of(job.home).restorable()
    for key in {file.key for entry in entries for file in entry.packed}:
        (job.home / JOB / key).unlink()
    to = job.home.with_name("copy")
    to.mkdir()
    assert main(["copy", "--home", f"file://{job.home}", "--job", JOB, "--to", f"file://{to}", "--all"]) == 0
    assert [entry.id for entry in state_of(to).restorable()] == [entry.id for entry in entries]
    restored = to.with_name("restored")
    assert main(["restore", "--home", f"file://{to}", JOB, str(restored)]) == 0
    assert (restored / "metadata").exists()


def test_where_the_plans_are_gone_with_the_checkpoint_rows_are_taken_back_as_ever(job: Job) -> None:
    (id,) = lost_disk(job)
    (plans,) = state_of(job.home).completed[CheckpointId(id)].packed
    (job.home / JOB / plans.key).unlink()
    run = job.run()
    assert repeated(run) == []
    job.require_rows(SEEN - 1)
    assert state_of(job.home).passed_over == {id}
    job.goes_on(run, 2, rows=SEEN + 1)


def test_plans_that_cannot_be_read_now_are_no_reason_to_take_rows_back(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_disk(job)
    read, head = Known.read, state_of(job.home).newest_of_the_line()

    def away(known: Known, file: Any) -> bytes:
        if packed_range(file.path) is not None:
            raise StorageUnreachable("could not read it: no connection")
        return read(known, file)

    with monkeypatch.context() as trouble:
        trouble.setattr(Known, "read", away)
        with pytest.raises(StorageUnreachable, match="how the batches after checkpoint 3 are repeated") as refused:
            job.run()
    assert "--from-checkpoint 3" in (refused.value.hint or "")
    job.require_rows(SEEN)
    assert state_of(job.home).newest_of_the_line() == head
    assert repeated(job.run()) == [3]
    job.require_rows(SEEN)


def test_what_a_run_that_is_taken_over_publishes_meanwhile_is_not_taken_back(job: Job) -> None:
    first = job.run()
    first.batches(SEEN - 1)
    zombie = job.run(step=dying_at("publish.begin"))
    with pytest.raises(KeyboardInterrupt):
        zombie.batches(1)
    ledger = zombie.runtime._life.resumed.directory.ledger()
    job.require_rows(SEEN - 1)
    job.wipe_work()
    damage(job)

    def publishing(reached: str) -> None:
        if reached == "recovery.directory":
            zombie.query.sink.publish(ledger[-1].batch_id, ledger)  # type: ignore[union-attr]

    with pytest.raises(StorageUnreachable, match="and shows batches up to 3 now"):
        job.run(step=publishing)
    job.require_rows(SEEN)
    assert not state_of(job.home).abandoned
    run = job.run()
    assert repeated(run) == [SEEN - 1]
    job.goes_on(run, 1, rows=SEEN + 1)


@pytest.mark.parametrize("batches", [BATCHES_RETAINED - 1, 3 * BATCHES_RETAINED])
def test_what_spark_has_forgotten_before_the_checkpoint_is_repeated_too(job: Job, batches: int) -> None:
    run = job.run()
    run.batches(2)
    run.stop()
    run = job.run(interval="1h")
    for _ in range(batches):
        run.query.batch()
        run.wait(0.5)
    run.stop()
    job.wipe_work()
    damage(job)
    again = job.run()
    assert repeated(again) == list(range(2, 2 + batches))
    job.require_rows(2 + batches)


def test_a_checkpoint_is_taken_before_a_fall_back_would_repeat_more_than_the_target_allows(job: Job) -> None:
    run = job.run(interval="1h", recovery_target="5s")
    run.batches(15)
    told = run.runtime.status.recovery
    assert told is not None
    assert (told.batches, told.fall_back_batches) == (0, 5), "0.6 s each: half of the target is five of them"
    job.wipe_work()
    damage(job)
    assert repeated(job.run()) == [10, 11, 12, 13, 14]


def unseen(job: Job) -> None:
    """Readers see batch 2 of three behind checkpoint 1; checkpoint 2 holds all of them, and is damaged."""
    first = started(job, **BATCH)
    first.batches(2)
    first.stop()
    run = started(job, **BATCH)
    run.batches(1)
    assert run.query.sink is not None

    def away(upto: Any, ledger: Any) -> None:
        raise StorageUnreachable("the table cannot be written")

    run.query.sink.publish = away  # type: ignore[method-assign]
    run.batches(2)
    run.runtime.stop(None, lambda answer: None)
    run.settle()
    job.require_rows(3)
    assert [entry.barrier_batch_id for entry in state_of(job.home).restorable()] == [4, 1]
    job.wipe_work()
    damage(job)


def killed_at(job: Job, write: int) -> bool:
    """Whether there were so many writes to the home before the query went on."""
    left = write

    def dying(operation: str, key: str) -> None:
        nonlocal left
        if operation in ("create", "put", "upload"):
            left -= 1
            if left < 0:
                raise KeyboardInterrupt

    try:
        started(job, watch=dying, **BATCH)
    except KeyboardInterrupt:
        return True
    return False


def test_no_kill_on_the_way_takes_back_what_readers_saw_of_a_checkpoint_that_they_saw_in_part(job: Job) -> None:
    """The new line that began behind it had its plans only when the last one was put."""
    unseen(job)
    scene = job.root.with_name(f"{job.root.name}-scene")
    shutil.copytree(job.root, scene)
    for write in range(50):
        shutil.rmtree(job.root)
        shutil.copytree(scene, job.root)
        if not killed_at(job, write):
            break
        job.require_rows(3)
        run = started(job, **BATCH)
        assert set(delta_sink.expected(0, 1, 2)) <= set(job.rows()), f"killed at write {write}"
        job.goes_on(run, 1, rows=5)
        assert not state_of(job.home).abandoned
    assert write > 3


def test_a_new_line_has_the_plans_that_it_repeats_as_objects_of_its_own(job: Job) -> None:
    """One begins where a plan of what readers do not see yet is lost with its checkpoint. Those of the line before
    count no more."""
    unseen(job)
    state = state_of(job.home)
    for file in state.completed[CheckpointId(2)].packed:
        (job.home / JOB / file.key).unlink()
    (job.home / JOB / plan_key(line_folder(state), BatchId(4))).unlink()
    (killed := started(job, **BATCH)).query.batch()
    assert (repeated(killed), state_of(job.home).abandoned) == ([2], {2})
    job.wipe_work()
    run = started(job, **BATCH)
    assert repeated(run) == [2]
    job.goes_on(run, 1, rows=4)
