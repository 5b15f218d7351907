"""kill -9 of a driver whose query has a writer of its own, with its disk wiped: the sink has every row once.

Spark's file sink, Delta's, Iceberg's, and functions that merge into Delta, append to it with a transaction id, and
upsert into PostgreSQL; and holdfast's own sinks where they show every batch, and take none back. Delta and Iceberg run
under the newest Spark that they exist for. A kill takes about half a minute on an idle machine. `make long` has a few,
`make torture` all: `HOLDFAST_KILLS` of each.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.end_to_end.own_writer_story import Feed, Story, into_files
from tests.end_to_end.postgres import postgres_server
from tests.torture import TORTURE

KILLS = int(os.environ.get("HOLDFAST_KILLS", "2"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
CASES = [
    ("files", "stateful", "rate"),
    ("files", "stateless", "rate"),
    ("postgres", "stateful", "files"),
    ("delta", "stateful", "rate"),
    ("ours", "stateful", "rate"),
]
if TORTURE:
    CASES += [
        ("files", "stateful", "files"),
        ("postgres", "stateless", "rate"),
        ("delta", "stateless", "files"),
        ("iceberg", "stateful", "rate"),
        ("iceberg", "stateless", "files"),
        ("merge", "stateful", "rate"),
        ("merge", "stateless", "files"),
        ("transaction", "stateful", "files"),
        ("transaction", "stateless", "rate"),
        ("ours", "stateless", "files"),
        ("our_files", "stateful", "files"),
    ]


@pytest.mark.long
@pytest.mark.timeout(1200 + 240 * KILLS)
@pytest.mark.parametrize(("writer", "kind", "source"), CASES, ids=lambda part: part)
def test_every_row_once(tmp_path: Path, writer: str, kind: str, source: str) -> None:
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    chance = random.Random(SEED)
    if writer != "postgres":
        _kill_again_and_again(Story(tmp_path, writer, kind, source), chance)
        return
    with postgres_server(tmp_path / "postgres") as server:
        _kill_again_and_again(Story(tmp_path, writer, kind, source, server), chance)


def _kill_again_and_again(story: Story, chance: random.Random) -> None:
    feed = Feed(into_files(story.root / "in"), twice=story.kind == "stateful")
    with feed.running():
        for number in range(KILLS):
            before = story.completed()
            driver = story.life()
            # The first one may die before there is a checkpoint: then there are only plans.
            wanted = before if number == 0 and chance.random() < 0.5 else before + 1
            driver.wait_for(lambda: story.completed() >= wanted and story.planned() >= 0)  # noqa: B023
            beyond = story.planned() + chance.randrange(1, 12)
            driver.wait_for(lambda: story.planned() >= beyond)  # noqa: B023
            time.sleep(chance.random() * 0.3)
            driver.end(signal.SIGKILL)
            story.wipe()
        driver = story.life()
        driver.wait_for(lambda: story.planned() >= beyond + 2)
        driver.end(signal.SIGTERM)
    found = story.rows()
    assert found == list(range(found[-1] + 1))
    assert not story.taken_back(), "rows were taken back from readers"
    assert "repeating" in story.log.read_text()
