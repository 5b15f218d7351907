"""A query of plain Spark is protected by another process, loses its directory, and goes on from what was restored."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import holdfast
from holdfast.cli.main import main
from holdfast.errors import Conflict
from tests.patience import PATIENCE
from tests.spark.conftest import with_state_format

pytestmark = pytest.mark.timeout(400)

PAGE = Path(__file__).parents[2] / "docs" / "leaving.md"


class Words:
    """Lines of files into files, by Spark's own file sink; without duplicates where it has state."""

    def __init__(self, spark: SparkSession, root: Path, *, stateful: bool) -> None:
        self.spark, self.root, self.stateful = spark, root, stateful
        self.directory, self.out, self.home = root / "cp", root / "out", f"file://{root / 'home'}"
        self._lines = 0
        for name in ("in", "home"):
            (root / name).mkdir()

    def put(self, batches: int) -> None:
        """A file each. With state, a line of the file before comes again."""
        for _ in range(batches):
            again = [self._lines - 1] if self.stateful and self._lines else []
            lines = [*again, *range(self._lines, self._lines + 3)]
            self._lines += 3
            path = self.root / "in" / f"{self._lines:06}.txt"
            path.write_text("".join(f"{line}\n" for line in lines))
            os.utime(path, (self._lines, self._lines))  # Spark takes them in the order of their times

    def _query(self) -> DataFrame:
        lines = self.spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.root / "in"))
        return lines.dropDuplicates(["value"]) if self.stateful else lines

    def writer(self) -> DataStreamWriter:
        return self._query().writeStream.format("json").option("path", str(self.out))

    def run_plainly(self) -> None:
        running = self.writer().option("checkpointLocation", str(self.directory)).trigger(availableNow=True).start()
        running.awaitTermination()

    def rows(self) -> list[int]:
        return sorted(int(row.value) for row in self.spark.read.json(str(self.out)).collect())

    def expected(self) -> list[int]:
        return list(range(self._lines))

    def command(self, name: str, *more: str) -> int:
        return main([name, *more, "--home", self.home, "--job", "words"])

    def restore(self, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
        """With the plan that was printed."""
        shutil.rmtree(self.directory)
        capsys.readouterr()
        assert self.command("restore", "words", str(self.directory), *more, "--json") == 0
        report: dict[str, Any] = json.loads(capsys.readouterr().out)["continuing"]
        return report

    def follow(self, steps: list[str]) -> None:
        """As a person would: what is printed, with the function of docs/leaving.md."""
        replay = of_the_page("def replay")
        for step in steps[:-1]:
            if "Trigger.Once" in step:
                replay(self._query(), str(self.directory))
            elif (
                until := re.search(r"--plan (\d+)(.*), and the first step again; .* up to batch (\d+)", step)
            ) is not None:
                more = until[2].split()
                for batch in range(int(until[1]), int(until[3]) + 1):
                    assert self.command("restore", "words", str(self.directory), "--plan", str(batch), *more) == 0
                    replay(self._query(), str(self.directory))
            else:
                assert self.command("restore", *step.split()[2:]) == 0
        assert steps[-1] == f"start the query over {self.directory} with its own writer"
        self.run_plainly()

    @contextmanager
    def protected(self) -> Iterator[subprocess.Popen[bytes]]:
        """Until it is killed."""
        command = [sys.executable, "-m", "holdfast.cli", "protect", str(self.directory), "--home", self.home]
        options = ["--job", "words", "--interval", "1h", "--heartbeat", "500ms"]
        with (self.root / "protect.log").open("wb") as log:
            process = subprocess.Popen([*command, *options], stderr=log, stdout=log)
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()

    def plans(self) -> int:
        found = (self.root / "home").glob("words/plans/*/[0-9]*")
        return max((int(path.name) for path in found), default=-1)


def of_the_page(begins: str) -> Callable[..., None]:
    """The function of docs/leaving.md that begins so."""
    (code,) = (block for block in re.findall(r" *```python\n(.*?)```", PAGE.read_text(), re.S) if begins in block)
    found: dict[str, Any] = {}
    exec(textwrap.dedent(code), found)
    name = begins.removeprefix("def ")
    return found[name]  # type: ignore[no-any-return]


def wait_for(happened: Callable[[], bool], log: Path) -> None:
    ends = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < ends, log.read_text()
        time.sleep(0.05)


@pytest.fixture(params=["stateless", "stateful"])
def words(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Words]:
    with_state_format(spark, "rocksdb-changelog")
    yield Words(spark, tmp_path, stateful=request.param == "stateful")
    with_state_format(spark, "hdfs")


def test_a_lost_directory_comes_back_and_plain_spark_goes_on_exactly(
    words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    words.put(2)
    words.run_plainly()
    with words.protected() as process:
        wait_for(lambda: words.plans() == 1, words.root / "protect.log")
        assert words.command("checkpoint", "words") == 0
        before = {path: path.stat().st_mtime_ns for path in words.directory.rglob("*")}
        words.put(3)
        words.run_plainly()
        wait_for(lambda: words.plans() == 4, words.root / "protect.log")
        process.send_signal(signal.SIGKILL)
    new = {path.name for path in words.directory.rglob("*") if path not in before and path.is_file()}
    assert not [name for name in new if "holdfast" in name]
    report = words.restore(capsys, "--sink", str(words.out))
    assert (report["writer_has"], report["planned_batch_id"], report["exact"]) == (4, 4, True)
    if words.stateful:
        assert (report["replayed"], report["repeated"]) == ([2, 4], None)
    else:
        assert (report["skipped"], report["repeated"]) == ([2, 3], 4)
    words.put(2)
    words.follow(report["steps"])
    assert words.rows() == words.expected()


def test_a_batch_that_the_output_lacks_is_repeated_as_it_was(words: Words, capsys: pytest.CaptureFixture[str]) -> None:
    """The query dies between the plan and the output."""
    words.put(2)
    words.run_plainly()
    assert main(["protect", str(words.directory), "--home", words.home, "--job", "words", "--once"]) == 0
    words.put(2)
    words.run_plainly()
    for path in (words.out / "_spark_metadata" / "3", words.out / "_spark_metadata" / ".3.crc"):
        path.unlink()
    for path in (words.directory / "commits" / "3", words.directory / "commits" / ".3.crc"):
        path.unlink()
    with words.protected() as process:
        wait_for(lambda: words.plans() == 3, words.root / "protect.log")
        process.kill()
    report = words.restore(capsys, "--sink", str(words.out))
    assert (report["writer_has"], report["planned_batch_id"], report["repeated"]) == (2, 3, 3)
    words.put(1)
    words.follow(report["steps"])
    assert words.rows() == words.expected()


def test_what_nobody_knows_a_plan_of_comes_twice_and_nothing_is_missing(
    words: Words, capsys: pytest.CaptureFixture[str]
) -> None:
    """The directory is lost before the plans of its last batches are in the home."""
    words.put(2)
    words.run_plainly()
    assert main(["protect", str(words.directory), "--home", words.home, "--job", "words", "--once"]) == 0
    before = words.rows()
    words.put(2)
    words.run_plainly()
    unknown = set(words.rows()) - set(before)
    report = words.restore(capsys, "--sink", str(words.out))
    assert (report["twice"], report["exact"]) == ([2, 3], False)
    words.put(1)
    words.follow(report["steps"])
    assert words.rows() == sorted([*words.expected(), *unknown])


@pytest.mark.parametrize("words", ["stateful"], indirect=True)
def test_leaving_by_the_page(words: Words, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/leaving.md: a job with a writer of its own is stopped, restored, and goes on with plain Spark."""
    words.put(3)
    options: dict[str, Any] = {"work": words.root / "work", "spark": words.spark, "interval": "1h"}
    build: Any = lambda spark: words.writer().trigger(availableNow=True)  # noqa: E731
    holdfast.start(build, job="words", home=words.home, **options).await_termination()
    page = PAGE.read_text()
    assert "holdfast restore orders /data/checkpoints/orders --sink /data/orders" in page
    words.directory.mkdir()
    report = words.restore(capsys, "--sink", str(words.out))
    assert report["exact"]
    words.put(2)
    words.follow(report["steps"])
    assert words.rows() == words.expected()


@pytest.mark.parametrize("words", ["stateful"], indirect=True)
def test_run_and_protect_of_one_job_do_not_mix(words: Words) -> None:
    words.put(1)
    words.run_plainly()
    command = ["protect", str(words.directory), "--home", words.home, "--job", "words", "--once"]
    assert main(command) == 0
    words.put(1)
    words.run_plainly()
    options: dict[str, Any] = {"work": words.root / "work", "spark": words.spark, "interval": "1h"}
    build: Any = lambda spark: words.writer().trigger(availableNow=True)  # noqa: E731
    with pytest.raises(Conflict, match="batch 1 is planned there now"):
        holdfast.start(build, job="words", home=words.home, **options)
    assert main(command) == 0
    words.put(1)
    holdfast.start(build, job="words", home=words.home, **options).await_termination()
    assert words.rows() == words.expected()
    assert main(command) == 2, "holdfast runs it now"


def test_a_query_that_fails_leaves_its_plan(spark: SparkSession, tmp_path: Path) -> None:
    """A writer that cannot be asked: the batch that it may have comes again with the same rows."""
    words = Words(spark, tmp_path, stateful=False)
    words.put(2)
    words.run_plainly()
    assert main(["protect", str(words.directory), "--home", words.home, "--job", "words", "--once"]) == 0

    def fail(batch: DataFrame, number: int) -> None:
        raise RuntimeError("the table does not answer")

    words.put(1)
    failing = words._query().writeStream.foreachBatch(fail).option("checkpointLocation", str(words.directory))
    with suppress(StreamingQueryException):
        failing.trigger(availableNow=True).start().awaitTermination()
    assert main(["protect", str(words.directory), "--home", words.home, "--job", "words", "--once"]) == 0
    assert words.plans() == 2
