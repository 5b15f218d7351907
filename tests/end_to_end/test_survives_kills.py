"""kill -9 at random moments of a running stateful pipeline, half the times with its disk wiped: the output is exact."""

import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.end_to_end.driver import STATE_FORMATS
from tests.end_to_end.harness import Pipeline

USUAL = "rocksdb-changelog"
"""The format of every other test here."""
BOTH_WAYS_ON = (0, 1)
"""The disk is wiped after the one, and left after the other."""
KILLS = int(os.environ.get("HOLDFAST_KILLS", "6"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))


def kill_at_random(pipeline: Pipeline, kills: int, seed: int, with_jvm: Sequence[int] = ()) -> None:
    """Each kill comes a random number of steps into a life, plus a random instant; every second one wipes the disk.

    Of the lives `with_jvm` the JVM dies at that very moment as well; of the others it ends right after.
    """
    chance = random.Random(seed)
    for number in range(kills):
        driver = pipeline.start(own_jvm=number in with_jvm)
        driver.wait_for_steps(chance.randrange(5, 60))
        time.sleep(chance.random() * 0.2)
        driver.kill()
        pipeline.require_nothing_wrong()
        if number % 2 == 0:
            pipeline.wipe_work()
    pipeline.finish()
    pipeline.require_exact()


@pytest.mark.timeout(1200 + 120 * KILLS)
@pytest.mark.parametrize("sink", [pytest.param("delta", marks=pytest.mark.long), "files"])
def test_random_kills(tmp_path: Path, sink: str) -> None:
    kills = KILLS // 2
    seed = SEED + (sink == "files")
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    with_jvm = BOTH_WAYS_ON if sink == "delta" else ()
    kill_at_random(Pipeline(tmp_path, files=10 * kills, sink=sink), kills, seed, with_jvm)


@pytest.mark.long
@pytest.mark.parametrize(
    "state_format", [name for name in STATE_FORMATS if KILLS > 10 or name not in (USUAL, "hdfs-unmerged")]
)
def test_random_kills_in_every_state_format(tmp_path: Path, state_format: str) -> None:
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    kill_at_random(Pipeline(tmp_path, files=15, state_format=state_format), kills=2 if KILLS > 10 else 1, seed=SEED)
