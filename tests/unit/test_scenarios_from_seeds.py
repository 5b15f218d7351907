"""The situations that people reported about other systems, as they go here. Numbers are those of the reference texts.

000  a job that starts again without memory of earlier ids finds "_metadata already exists" and dies
001  one task declines while others still write, and the directory is deleted under them
002  storage fails for a while, every checkpoint fails, and the application is restarted for it
004  acknowledgements come after the time-out, for ever
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.alarm import Alarm
from holdfast.checkpoint.layout import ShardPlan
from holdfast.coordination.commands import AbortCheckpoint, SealCheckpoint
from holdfast.coordination.events import (
    CheckpointBegun,
    CheckpointSealed,
    ShardAcknowledged,
    SnapshotPlanned,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.lifecycle import Phase
from holdfast.identifiers import CheckpointId
from holdfast.repository.blobs import Blobs
from holdfast.snapshot.carrier import Cancelled, ShardCopy, ShardDeclined, copy_shards
from holdfast.workdir.factory import work_directory
from tests.simulation.runs import Network, Scene, SimulatedRun
from tests.simulation.work import SimulatedDirectory
from tests.simulation.world import World
from tests.unit.coordinating import LIMITS, SHARDS, Driven, kinds, only
from tests.unit.work_files import EPOCH, MIB, new_store, shards, write

CALM = {
    "interval": "2s",
    "timeout": "20s",
    "max_concurrent": 1,
    "retained": 3,
    "min_pause": "0s",
    "parallelism": 2,
    "publish": "checkpoint",
}


def calm_scene(**settings: object) -> Scene:
    """A world without faults, in which a test makes its own."""
    scene = Scene(World(1), duration=10_000.0)
    scene.faults.stop()
    scene.network = Network()
    scene.dying, scene.pace, scene.clock_jumps, scene.history_kept = 0.0, 0.5, False, 500
    scene.settings |= {**CALM, "on_exceeded": "alert", "tolerable_failures": 2, **settings}
    return scene


def run_for(scene: Scene, seconds: float) -> None:
    end = scene.world.now + seconds
    scene.world.run(lambda: scene.world.now >= end, limit=end + 60.0)


def started_ids(scene: Scene) -> list[int]:
    return [int(what.split()[3]) for _, _, what in scene.world.trace if ": CheckpointStarted" in what]


def test_seed_000_a_run_without_memory_of_earlier_ids_goes_on_counting() -> None:
    scene = calm_scene()
    first = SimulatedRun(scene, scene.hosts[0], "refuse")
    run_for(scene, 11.0)
    scene.world.crash(first.process)
    before = set(scene.checkers.completed)
    objects = dict(scene.disk.objects)
    second = SimulatedRun(scene, scene.hosts[1], "takeover")
    run_for(scene, 11.0)
    assert second.runtime is not None
    assert len(before) >= 3
    assert len(set(scene.checkers.completed) - before) >= 3
    ids = started_ids(scene)
    assert ids == sorted(set(ids)), "an id is never used twice"
    overwritten = [key for key in objects if key in scene.disk.objects and scene.disk.objects[key] != objects[key]]
    assert set(overwritten) <= {"owner.json", "recent.json.gz"}
    scene.checkers.verify_all()


def test_seed_000_the_same_entry_written_twice_is_one_entry() -> None:
    """The put that reported a failure had worked: what exists already is one's own."""
    scene = calm_scene()
    run = SimulatedRun(scene, scene.hosts[0], "refuse")
    run_for(scene, 5.0)
    scene.faults.after = 0.4
    run_for(scene, 30.0)
    scene.faults.after = 0.0
    run_for(scene, 10.0)
    assert run.alive
    ids = started_ids(scene)
    assert ids == sorted(set(ids))
    scene.checkers.verify_all()


def test_seed_001_a_decline_takes_nothing_from_the_shards_that_still_write(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = calm_scene()
    copied: list[str] = []
    original = SimulatedDirectory.copy

    def copy(
        self: SimulatedDirectory, group: Sequence[ShardPlan], blobs: Blobs, cancelled: Callable[[], bool]
    ) -> tuple[ShardCopy, ...]:
        for shard in group:
            if shard.shard == "state/0/1" and "declined" not in copied:
                copied.append("declined")
                raise ShardDeclined(shard.shard, "1.delta", "vanished before it was read")
        copies = original(self, group, blobs, cancelled)
        copied.extend(copy.shard for copy in copies)
        return copies

    monkeypatch.setattr(SimulatedDirectory, "copy", copy)
    run = SimulatedRun(scene, scene.hosts[0], "refuse")
    scene.world.run(lambda: bool(scene.checkers.completed), limit=30.0)
    assert started_ids(scene) == [1], "it is the same checkpoint that completes"
    assert sorted(copied) == ["control", "declined", "state/0/0", "state/0/1", "state/0/2"], "each shard once"
    run_for(scene, 0.1)
    assert run.runtime is not None
    statistics = run.runtime.status.statistics
    assert (statistics.shard_retries, statistics.failed, statistics.completed) == (1, 0, 1)


def test_seed_002_storage_fails_for_an_hour_and_the_pipeline_runs_on() -> None:
    alarms: list[Alarm] = []
    scene = calm_scene(interval="60s", timeout="60s", heartbeat="30s", alarms=(alarms.append,))
    scene.pace = 20.0
    run = SimulatedRun(scene, scene.hosts[0], "refuse")
    run_for(scene, 300.0)
    assert run.runtime is not None
    completed, barrier = len(scene.checkers.completed), run.runtime.status.barrier or 0
    scene.faults.outages = ((scene.world.now, scene.world.now + 3600.0),)
    run_for(scene, 3600.0)
    status = run.runtime.status
    assert (run.alive, status.running, status.restarts) == (True, True, 0)
    assert (status.barrier or 0) > barrier + 100, "batches were committed all the time"
    assert len(scene.checkers.completed) == completed
    assert [alarm.severity for alarm in status.alarms if alarm.code == "checkpoints_failing"] == ["critical"]
    assert "no connection" in status.alarms[0].message
    run_for(scene, 600.0)
    assert len(scene.checkers.completed) > completed
    assert run.runtime.status.alarms == ()
    assert [alarm.code for alarm in alarms if alarm.cleared] == ["checkpoints_failing"]
    assert scene.table.published == max(entry.barrier_batch_id for entry, _ in scene.checkers.completed.values())


def test_seed_004_acknowledgements_later_than_the_time_out_change_nothing_but_are_not_in_vain() -> None:
    scene = calm_scene(timeout="1s")
    scene.network = Network(late=1.0)
    run = SimulatedRun(scene, scene.hosts[0], "refuse")
    run_for(scene, 30.0)
    assert run.runtime is not None
    statistics = run.runtime.status.statistics
    assert statistics.failed > 3
    assert statistics.stale_messages > 3
    assert run.runtime.status.running
    scene.network = Network()
    done = statistics.completed
    run_for(scene, 30.0)  # the checkers would say if bytes were uploaded again
    assert run.runtime.status.statistics.completed > done
    scene.checkers.verify_all()


def test_seed_004_nothing_waits_for_a_slow_finalisation() -> None:
    driven = Driven(replace(LIMITS, max_concurrent=2))
    slow, next_one = driven.begin_periodic(0), driven.begin_periodic(1)
    driven.advance(slow, Phase.SEALING)  # and the home does not answer
    driven.tell(CheckpointBegun(next_one, CheckpointId(2)))
    driven.tell(SnapshotPlanned(next_one, SHARDS))
    driven.tell(ShardAcknowledged(next_one, SHARDS[0]))
    assert only(driven.tell(ShardAcknowledged(next_one, SHARDS[1])), SealCheckpoint).ticket == next_one
    assert "PublishOutput" in kinds(driven.tell(CheckpointSealed(next_one)))
    assert driven.tell(ShardAcknowledged(slow, SHARDS[0])) == []
    assert driven.statistics.completed == 1


def test_seed_004_a_state_that_needs_ten_time_outs_to_upload_completes(tmp_path: Path) -> None:
    """Each attempt has time for one file of ten. What was uploaded too late is there for the next one."""
    work, store = tmp_path / "work", new_store(tmp_path / "home")
    work.mkdir()
    write(work, {f"state/{number}": bytes([number]) * MIB for number in range(10)})
    (plan,) = shards(work)
    blobs = Blobs(store, EPOCH)
    driven = Driven(replace(LIMITS, tolerable_failures=100))
    expired = 0
    for batch in range(20):
        ticket = driven.begin_periodic(batch)
        driven.tell(CheckpointBegun(ticket, CheckpointId(batch + 1)))
        driven.tell(SnapshotPlanned(ticket, (plan.shard,)))
        blobs.begin(ticket)
        already = len(store.uploaded)
        try:
            copy_shards(work_directory(work), [plan], blobs, lambda already=already: len(store.uploaded) > already)  # type: ignore[misc]
        except Cancelled:
            aborted = only(driven.wait(LIMITS.timeout), AbortCheckpoint)
            assert aborted.reason is FailureReason.EXPIRED
            blobs.end(ticket)
            expired += 1
        else:
            assert only(driven.tell(ShardAcknowledged(ticket, plan.shard)), SealCheckpoint).ticket == ticket
            break
    assert expired >= 9
    assert len(store.uploaded) == len(set(store.uploaded)) == 10, "nothing was uploaded twice"
    driven.tell(CheckpointSealed(ticket))
    assert driven.statistics.completed == 1
