"""A work directory on S3: used by holdfast alone, and by Spark with its own client."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.testing.workdirs import WorkDirectoryConformance
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from tests.end_to_end.harness import Pipeline, write_input
from tests.stores.hadoop_aws import submit_arguments
from tests.stores.proxy import Fate, Proxy, Seen, proxy_to
from tests.stores.s3 import BUCKET, S3Server, s3_server


class TestS3(WorkDirectoryConformance):
    @pytest.fixture(autouse=True)
    def place(self, s3: S3Server) -> None:
        self.url = s3.work("conformance of directories")

    def make_directory(self) -> WorkDirectory:
        return work_directory(self.url)


def test_marks_of_folders_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hadoop leaves them when it deletes a file, and where plain Spark makes a folder."""
    with s3_server(tmp_path, authorization="none") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        directory = work_directory(server.work("work"))
        directory.write_atomic("state/0/1.changelog", b"x")
        for folder in ("work", "work/state", "work/state/0"):
            url = f"{server.endpoint}/{BUCKET}/{folder}/"
            urllib.request.urlopen(urllib.request.Request(url, data=b"", method="PUT")).close()
        assert [file.path for file in directory.scan()] == ["state/0/1.changelog"]
        assert (directory.names(), directory.folders()) == (["state"], ["state"])
        assert (directory.names("state/0"), directory.folders("state/0")) == (["1.changelog"], [])


def damage_one_object(pipeline: Pipeline) -> str:
    """Other bytes, as many, in the newest change log of the newest run's prefix."""
    job = work_directory(pipeline.work_url).at("counts")
    newest = max((name for name in job.folders() if name[0].isdigit()), key=lambda name: int(name.partition("-")[0]))
    run = job.at(newest)
    logs = [file for file in run.scan("state") if file.path.endswith(".changelog")]
    file = max(logs, key=lambda file: int(re.findall(r"/(\d+)_", file.path)[-1]))
    run.write_atomic(file.path, b"\x55" * file.size)
    return f"{newest}/{file.path}"


@pytest.mark.long
@pytest.mark.usefixtures("short_lived_jvms")
def test_killed_frozen_and_damaged_the_output_is_exact(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_arguments())
    pipeline = Pipeline(
        tmp_path,
        files=14,
        state_format="rocksdb-v2",
        home_url=s3.home("kills/homes"),
        work_url=s3.work("kills/work"),
        own_jvms=True,
    )
    pipeline.start(crash_at="checkpoint.journal:1").end()
    assert len(pipeline.state().completed) == 1
    pipeline.start(crash_at="batch.ledger:2").end()
    pipeline.require_nothing_wrong()
    pipeline.wipe_work()

    stalled = pipeline.start(freeze_at="batch.staged:2")
    stalled.wait_until_frozen()
    pipeline.start(on_conflict="takeover", crash_at="checkpoint.journal:1").end()
    stalled.send(signal.SIGCONT)
    assert stalled.end()[0] == 5, "it is fenced"
    pipeline.require_nothing_wrong()

    damaged = damage_one_object(pipeline)
    pipeline.finish()
    pipeline.require_exact()
    log = pipeline.log.read_text()
    assert "from the previous run's directory s3a://" in log, "copied inside the store"
    assert "from checkpoint" in log
    assert damaged.partition("/")[0] in log
    assert not pipeline.work.exists(), "nothing of it is on a local disk"


FIRST, LAST = 2, 6
"""Commits between which the batches are counted."""


def requests_per_batch(seen: Sequence[Seen]) -> float:
    def written(batch: int) -> int:
        return next(n for n, one in enumerate(seen) if one.method == "PUT" and one.path.endswith(f"/commits/{batch}"))

    return (written(LAST) - written(FIRST)) / (LAST - FIRST)


def counted(place: Path, proxy: Proxy, server: S3Server, *, plain: bool) -> float:
    name = place.name
    given = {
        "plain": plain,
        "endpoint": proxy.endpoint,
        "source": str(place.parent / "source"),
        "work": f"s3a://{BUCKET}/{name}/work" if plain else server.work(f"{name}/work", proxy.endpoint),
        "home": server.home(f"{name}/homes", proxy.endpoint),
        "output": str(place),
    }
    proxy.seen.clear()
    command = [sys.executable, "-m", "tests.stores.counted_query", json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return requests_per_batch(proxy.seen)


@pytest.mark.long
@pytest.mark.usefixtures("short_lived_jvms")
def test_a_batch_takes_a_quarter_of_the_requests_and_a_lost_answer_stops_nothing(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submit_arguments())
    write_input(tmp_path / "source", LAST)
    with proxy_to(s3.endpoint) as proxy:
        plain = counted(tmp_path / "plain", proxy, s3, plain=True)
        lost: list[str] = []

        def lose_one(seen: Seen) -> Fate:
            if seen.path.endswith(f"/commits/{LAST}") and seen.is_conditional_put and not lost:
                lost.append(seen.path)
                return Fate.LOSE_ANSWER
            return Fate.PASS

        proxy.judge = lose_one
        ours = counted(tmp_path / "ours", proxy, s3, plain=False)
        deciding = [seen for seen in proxy.seen if seen.method == "PUT" and re.search("/(commits|offsets)/", seen.path)]
    print(f"requests per batch: {plain} by plain Spark, {ours} by holdfast")  # noqa: T201
    assert len(lost) == 1
    assert all(seen.is_conditional_put for seen in deciding)
    assert ours * 4 <= plain
