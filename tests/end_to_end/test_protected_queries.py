"""A query of plain Spark with `holdfast protect` beside it: killed, its disk wiped, restored, continued by the steps
that `restore` prints. The sink has every row once, but for those that were announced to come twice.

`make long` has a few kills, `make torture` 30 of each.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.main import main
from tests.end_to_end.own_writer_story import Feed, Story, into_files
from tests.torture import TORTURE

KILLS = int(os.environ.get("HOLDFAST_KILLS", "2"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(random.SystemRandom().randrange(1 << 32))))
CASES = [("stateless", "files"), ("stateful", "rate")]
if TORTURE:
    CASES += [("stateful", "files"), ("stateless", "rate")]
ENDS_TO_BE_STARTED_AGAIN = 1


class Protector:
    """As systemd would have it: started again when it ends by itself, unless a person must look."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.log = story.root / "protect.log"
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            return
        assert process is None or process.returncode in (ENDS_TO_BE_STARTED_AGAIN, -signal.SIGKILL), self.said()
        options = ["--home", f"file://{self._story.root / 'home'}", "--job", "numbers", "--interval", "3s"]
        command = [sys.executable, "-m", "holdfast.cli", "protect", str(self._story.checkpoint), *options]
        identity = ["--identity", "the-only-one", "--heartbeat", "1s", "--grace", "0s", "--retained", "3"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen([*command, *identity], stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(150)

    def said(self) -> str:
        return self.log.read_text()[-3000:]


@contextmanager
def protecting(story: Story) -> Iterator[Protector]:
    protector = Protector(story)
    try:
        yield protector
    finally:
        protector.kill()


@pytest.mark.long
@pytest.mark.timeout(1200 + 240 * KILLS)
@pytest.mark.parametrize(("kind", "source"), CASES, ids=lambda part: part)
def test_what_was_printed_is_what_becomes_of_every_row(
    tmp_path: Path, kind: str, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print(f"HOLDFAST_SEED={SEED}")  # noqa: T201
    chance = random.Random(SEED)
    story = Story(tmp_path, "files", kind, source, plainly=True)
    again: Counter[int] = Counter()
    exact = 0
    with protecting(story) as protector, Feed(into_files(tmp_path / "in"), twice=kind == "stateful").running():
        for _ in range(KILLS):
            before = story.completed()
            query = story.life()
            protector.ensure()
            query.wait_for(lambda: _alive(protector) and story.completed() > before)  # noqa: B023
            beyond = story.planned() + chance.randrange(1, 12)
            query.wait_for(lambda: _alive(protector) and story.planned() >= beyond)  # noqa: B023
            time.sleep(chance.random() * 0.3)
            if chance.random() < 0.5:
                protector.kill()
            query.end(signal.SIGKILL)
            shutil.rmtree(story.checkpoint)
            report = _restored(story, capsys)
            exact += report["exact"]
            if report["twice"] is not None:
                again += rows_between(story.root / "out", *report["twice"])
            if report["replayed"] is not None:
                story.life("replay", *map(str, report["replayed"])).finish()
                if report["repeated"] is not None:
                    home = f"file://{tmp_path / 'home'}"
                    plan = ["--plan", str(report["repeated"]), "--home", home]
                    assert main(["restore", "numbers", str(story.checkpoint), *plan]) == 0
        before, beyond = story.completed(), story.planned() + 2
        query = story.life()
        query.wait_for(lambda: _alive(protector) and story.completed() > before and story.planned() >= beyond)
        query.end(signal.SIGKILL)
        assert protector.stop() == 0, protector.said()
    with capsys.disabled():
        print(f"{kind} {source}: {KILLS} kills, {exact} exact, {again.total()} rows twice as printed")  # noqa: T201
    found = Counter(story.rows())
    assert found == Counter(range(max(found) + 1)) + again


def _alive(protector: Protector) -> bool:
    protector.ensure()
    return True


def _restored(story: Story, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    home, out = f"file://{story.root / 'home'}", str(story.root / "out")
    command = ["restore", "numbers", str(story.checkpoint), "--home", home, "--sink", out, "--json"]
    assert main(command) == 0, capsys.readouterr().err
    report: dict[str, Any] = json.loads(capsys.readouterr().out)["continuing"]
    assert report["missing"] is None
    return report


def rows_between(out: Path, first: int, last: int) -> Counter[int]:
    """Of these batches, by the log of Spark's file sink."""
    files = _files_upto(out, last) - _files_upto(out, first - 1)
    return Counter(
        json.loads(line)["value"] for file in files for line in (out / file).read_text().splitlines() if line
    )


def _files_upto(out: Path, batch: int) -> set[str]:
    log = {int(path.name.split(".")[0]): path for path in sorted((out / "_spark_metadata").glob("[0-9]*"))}
    return {
        json.loads(line)["path"].rpartition("/")[2]
        for number, path in log.items()
        if number <= batch
        for line in path.read_text().splitlines()[1:]
    }
