"""One flipped byte in any kind of object of the newest checkpoint: verify names it, recovery takes the one before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.repository.entries import CheckpointCompleted
from tests.end_to_end.harness import Pipeline


def flip_one_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x01
    path.write_bytes(bytes(data))


def verify(pipeline: Pipeline) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-m", "holdfast.cli", "verify", "--json", "--job", "counts"]
    command += ["--home", f"file://{pipeline.home}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def manifest_of(pipeline: Pipeline, entry: CheckpointCompleted) -> Manifest:
    data = (pipeline.home / "counts" / manifest_key(entry.manifest)).read_bytes()
    return decode_manifest(data, entry.manifest)


def damage_newest(pipeline: Pipeline, kind: str) -> str:
    """Flip a byte in an object that only the newest checkpoint has; its key."""
    newest, older = pipeline.state().restorable()[:2]
    if kind == "manifest":
        key = manifest_key(newest.manifest)
    else:
        shared = {file.key for file in manifest_of(pipeline, older).files()}
        own = [file.key for file in manifest_of(pipeline, newest).files() if file.key not in shared]
        key = own[0]
    flip_one_byte(pipeline.home / "counts" / key)
    return key


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["manifest", "data"])
def test_the_checkpoint_before_is_used_and_the_output_is_exact(tmp_path: Path, kind: str) -> None:
    pipeline = Pipeline(tmp_path, files=20)
    driver = pipeline.start()
    driver.wait_for("step publish.done", times=3)
    driver.kill()
    assert verify(pipeline)[0] == 0
    newest = pipeline.state().restorable()[0]

    key = damage_newest(pipeline, kind)
    code, report = verify(pipeline)
    assert code == 4
    corrupt = report["corrupt"]
    assert isinstance(corrupt, list)
    assert any(key in found["path"] for found in corrupt)
    assert all(found["checkpoint"] == newest.id for found in corrupt)

    pipeline.wipe_work()
    pipeline.finish()
    assert newest.id in pipeline.state().corrupt
    pipeline.require_exact()
