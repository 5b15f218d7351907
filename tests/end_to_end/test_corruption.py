"""The corruption matrix with real drivers: each damage is done to what a killed driver left, and the next one goes on.

What cannot be read is set aside, the next candidate is taken, the output is exact. `make torture` runs every kind of
damage in every state format; tests/spark/test_corruption.py has all of them without drivers.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.repository.entries import CheckpointCompleted, QueryRestarted
from tests.damage import DAMAGE, empty, flipped, missing, truncated
from tests.end_to_end.driver import STATE_FORMATS, damage_state, newest_directory
from tests.end_to_end.harness import Pipeline
from tests.patience import PATIENCE
from tests.torture import TORTURE

FILES_PER_LIFE = 15


def live(pipeline: Pipeline, damage_at: str | None = None) -> None:
    """Run until checkpoints have been published, then die."""
    driver = pipeline.start(damage_at=damage_at)
    driver.wait_for("step publish.done", times=3)
    driver.kill()
    pipeline.require_nothing_wrong()


def set_aside(pipeline: Pipeline) -> set[str]:
    return {path.stem for path in pipeline.work.glob("counts/*.aside")}


def manifest_of(pipeline: Pipeline, entry: CheckpointCompleted) -> Manifest:
    data = (pipeline.home / "counts" / manifest_key(entry.manifest)).read_bytes()
    return decode_manifest(data, entry.manifest)


def own_object(pipeline: Pipeline, entry: CheckpointCompleted, older: CheckpointCompleted) -> Path:
    """Data that this checkpoint names and the one before it does not."""
    shared = {file.key for file in manifest_of(pipeline, older).files()}
    key = next(file.key for file in manifest_of(pipeline, entry).files() if file.key not in shared)
    return pipeline.home / "counts" / key


def verify(pipeline: Pipeline) -> tuple[int, dict[int, str]]:
    """The exit code, and the damaged checkpoints with what is damaged of them."""
    command = [sys.executable, "-m", "holdfast.cli", "verify", "--all", "--json", "--job", "counts"]
    command += ["--home", f"file://{pipeline.home}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, {found["checkpoint"]: found["path"] for found in json.loads(done.stdout)["corrupt"]}


@pytest.mark.long
@pytest.mark.parametrize("state_format", STATE_FORMATS if TORTURE else ["rocksdb"])
def test_damage_from_one_life_to_the_next(tmp_path: Path, state_format: str) -> None:
    pipeline = Pipeline(tmp_path, files=6 * FILES_PER_LIFE, state_format=state_format)
    live(pipeline)

    damaged = newest_directory(pipeline.work)
    damage_state(pipeline.work)
    live(pipeline)
    assert set_aside(pipeline) == {damaged.name}, "seen before the query resumed"
    assert not restarts(pipeline)

    live(pipeline, damage_at="recovery.aligned")
    assert len(set_aside(pipeline)) == 2, "linked, then damaged: seen by Spark"
    assert len(restarts(pipeline)) == 1
    assert not pipeline.state().corrupt, "no checkpoint is to blame"

    pipeline.wipe_work()
    live(pipeline, damage_at="recovery.aligned")
    assert len(restarts(pipeline)) == 2, "restored, then damaged: the directory's bytes differ, so it is to blame"
    assert not pipeline.state().corrupt, "and the same checkpoint is restored once more"

    assert verify(pipeline) == (0, {})
    first, second, third = pipeline.state().restorable()[:3]
    data = own_object(pipeline, second, third)
    flipped(data)
    flipped(pipeline.home / "counts" / manifest_key(first.manifest))
    code, found = verify(pipeline)
    assert code == 4
    assert data.name in found[second.id]
    assert first.manifest in found[first.id]
    pipeline.wipe_work()
    pipeline.finish()
    assert {first.id, second.id} <= pipeline.state().corrupt.keys()
    pipeline.require_exact()


def restarts(pipeline: Pipeline) -> list[str]:
    return [entry.cause for entry in pipeline.entries() if isinstance(entry, QueryRestarted)]


if TORTURE:

    @pytest.mark.timeout(3600)
    @pytest.mark.parametrize("state_format", STATE_FORMATS)
    def test_every_kind_of_damage(tmp_path: Path, state_format: str) -> None:
        in_the_home = [empty, truncated, flipped, missing]
        pipeline = Pipeline(
            tmp_path, files=FILES_PER_LIFE * (len(DAMAGE) + 2 * len(in_the_home)), state_format=state_format
        )
        live(pipeline)
        for kind in DAMAGE:
            if kind.do(newest_directory(pipeline.work)) is not None:
                live(pipeline)
        for act in in_the_home:
            newest, older = pipeline.state().restorable()[:2]
            act(own_object(pipeline, newest, older))
            pipeline.wipe_work()
            live(pipeline)
            act(pipeline.home / "counts" / manifest_key(pipeline.state().restorable()[0].manifest))
            pipeline.wipe_work()
            live(pipeline)
        pipeline.finish()
        pipeline.require_exact()
