"""A query of plain Spark is killed, adopted, and goes on with holdfast: its sink has every row once.

Under each supported version of Spark in `make torture`; `make long` has the one that Delta exists for.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from holdfast.cli.main import main
from tests.compat.environments import VERSIONS, interpreter_of
from tests.end_to_end.connectors import DELTA_SPARK
from tests.end_to_end.own_writer_story import Feed, Story, into_files
from tests.end_to_end.postgres import postgres_server
from tests.torture import TORTURE

SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
CASES = [("delta", "stateful", DELTA_SPARK)]
if TORTURE:
    CASES += [
        (writer, kind, version)
        for version in VERSIONS
        for writer, kind in (("files", "stateless"), ("postgres", "stateful"))
    ]


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("writer", "kind", "version"), CASES, ids=lambda part: part)
def test_every_row_once(tmp_path: Path, writer: str, kind: str, version: str) -> None:
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    if writer != "postgres":
        _adopted(Story(tmp_path, writer, kind, "files", "", interpreter_of(version)))
        return
    with postgres_server(tmp_path / "postgres") as server:
        _adopted(Story(tmp_path, writer, kind, "files", server, interpreter_of(version)))


def _adopted(story: Story) -> None:
    original = story.root / "checkpoints"

    def planned() -> int:
        return max((int(path.name) for path in original.glob("offsets/[0-9]*") if path.name.isdigit()), default=-1)

    chance = random.Random(SEED)
    with Feed(into_files(story.root / "in"), twice=story.kind == "stateful").running():
        plain = story.life("plainly")
        beyond = chance.randrange(3, 15)
        plain.wait_for(lambda: planned() >= beyond)
        time.sleep(chance.random() * 0.3)
        plain.end(signal.SIGKILL)
        before = {path: path.read_bytes() for path in original.rglob("*") if path.is_file()}
        command = ["adopt", str(original), "--home", f"file://{story.root / 'home'}", "--job", "numbers"]
        assert main([*command, "--watch", "0"]) == 0
        newest = planned()
        ours = story.life()
        ours.wait_for(lambda: story.planned() >= newest + 3)
        ours.end(signal.SIGTERM)
    found = story.rows()
    assert found == list(range(found[-1] + 1))
    assert {path: path.read_bytes() for path in original.rglob("*") if path.is_file()} == before
