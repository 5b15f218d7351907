"""A query that plain Spark has run becomes a job: it goes on where it stopped, and the original stays as it is."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import holdfast
from holdfast.cli.main import main
from holdfast.errors import Conflict, Corrupt, HomeReplaced
from holdfast.identifiers import JobName
from holdfast.runtime.commands import adopting
from holdfast.runtime.commands.copying import JobHome
from holdfast.storage.urls import open_store
from holdfast.workdir.factory import work_directory
from tests.spark.conftest import with_state_format
from tests.stores.s3 import s3_server

pytestmark = pytest.mark.timeout(300)


class Counts:
    """How often each word came, by plain Spark and then by holdfast, into a function of the user's own."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self.root = root
        self.original = root / "checkpoints"
        self.home = f"file://{root / 'home'}"
        self.written: list[tuple[int, dict[str, int]]] = []
        self.fails_at: int | None = None
        self._words: list[str] = []
        for name in ("in", "home"):
            (root / name).mkdir()

    def put(self, *words: str) -> None:
        self._words += words
        (self.root / "in" / f"{len(self._words)}.txt").write_text("\n".join(words))

    def _writer(self) -> DataStreamWriter:
        def write(batch: DataFrame, number: int) -> None:
            self.written.append((number, {row.value: row["count"] for row in batch.collect()}))
            if number == self.fails_at:
                raise RuntimeError("the table does not answer")

        lines = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.root / "in"))
        counted = lines.groupBy("value").count()
        return counted.writeStream.outputMode("update").foreachBatch(write).trigger(availableNow=True)

    def run_plainly(self) -> None:
        self._writer().option("checkpointLocation", str(self.original)).start().awaitTermination()

    def run(self, job: str = "words", **options: Any) -> None:
        holdfast.start(
            lambda spark: self._writer(),
            job=job,
            home=self.home,
            work=self.root / "work",
            spark=self._spark,
            interval="1h",
            **options,
        ).await_termination()

    def adopt(self, job: str = "words") -> int:
        return main(["adopt", str(self.original), "--home", self.home, "--job", job, "--watch", "0"])

    def expected(self) -> dict[str, int]:
        return dict(Counter(self._words))

    def counted(self) -> dict[str, int]:
        """The newest count of each word."""
        found: dict[str, int] = {}
        for _, counts in self.written:
            found |= counts
        return found

    def bytes_of_original(self) -> dict[str, bytes]:
        files = (path for path in self.original.rglob("*") if path.is_file())
        return {str(path.relative_to(self.original)): path.read_bytes() for path in files}


@pytest.fixture(params=["hdfs", "rocksdb-v2"])
def counts(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[Counts]:
    with_state_format(spark, request.param)
    yield Counts(spark, tmp_path)
    with_state_format(spark, "hdfs")


def test_a_query_goes_on_with_its_state_and_repeats_the_batch_that_had_not_ended(counts: Counts) -> None:
    counts.put("a", "b")
    counts.put("a")
    counts.put("c", "a")
    counts.fails_at = 2
    with suppress(StreamingQueryException):
        counts.run_plainly()
    before = counts.bytes_of_original()
    assert counts.adopt() == 0
    assert counts.bytes_of_original() == before, "the original is only read"
    counts.fails_at = None
    counts.put("b")
    counts.run()
    assert [number for number, _ in counts.written] == [0, 1, 2, 2, 3]
    assert counts.written[2] == counts.written[3], "the same rows under the same id"
    assert counts.counted() == counts.expected()
    assert counts.bytes_of_original() == before
    counts.written.clear()
    counts.run_plainly()
    assert [number for number, _ in counts.written] == [2, 3], "plain Spark still continues the original"


def test_the_second_job_that_was_made_of_a_query_is_refused(
    counts: Counts, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    counts.put("a")
    counts.run_plainly()
    assert counts.adopt() == 0
    assert counts.adopt("again") == 0
    assert "made of the same query in this home: words" in capsys.readouterr().out
    counts.put("b")
    counts.run()
    counts.put("a")
    entries = sorted((tmp_path / "home" / "again" / "journal").iterdir())
    with pytest.raises(Conflict, match="job 'words' of this home was made of the same query and has gone on"):
        counts.run("again")
    assert sorted((tmp_path / "home" / "again" / "journal").iterdir()) == entries, "not even claimed"
    counts.run()
    assert counts.counted() == counts.expected()


def test_a_query_that_goes_on_in_the_original_is_seen_at_the_first_start(counts: Counts) -> None:
    counts.put("a")
    counts.run_plainly()
    assert counts.adopt() == 0
    counts.put("b")
    counts.run_plainly()
    with pytest.raises(Conflict, match=r"batch 0 was planned there, and now batch 1 is") as refused:
        counts.run()
    assert "holdfast adopt" in (refused.value.hint or "")
    assert counts.adopt() == 0, "as the hint says"
    counts.put("a")
    counts.run()
    assert [number for number, _ in counts.written] == [0, 1, 2]
    assert counts.counted() == counts.expected()
    assert counts.adopt() == 2, "a job that has run is not changed"


class Lines:
    """Lines into Spark's own file sink."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self.root = root
        self.original, self.out = root / "checkpoints", root / "out"
        self.home = f"file://{root / 'home'}"
        for name in ("in", "home"):
            (root / name).mkdir()

    def put(self, line: str) -> None:
        (self.root / "in" / f"{line}.txt").write_text(line)

    def writer(self, spark: SparkSession) -> DataStreamWriter:
        lines = self._spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(self.root / "in"))
        return lines.writeStream.format("json").option("path", str(self.out)).trigger(availableNow=True)

    def run_plainly(self) -> None:
        self.writer(self._spark).option("checkpointLocation", str(self.original)).start().awaitTermination()

    def run(self) -> None:
        holdfast.start(
            self.writer, job="lines", home=self.home, work=self.root / "work", spark=self._spark, interval="1h"
        ).await_termination()

    def read(self) -> list[str]:
        return sorted(row.value for row in self._spark.read.json(str(self.out)).collect())


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> Lines:
    with_state_format(spark, "hdfs")
    found = Lines(spark, tmp_path)
    for line in ("one", "two", "three"):
        found.put(line)
    found.run_plainly()
    return found


def adopted(lines: Lines, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    arguments = ["--home", lines.home, "--job", "lines", "--watch", "0", "--json", *options]
    code = main(["adopt", str(lines.original), *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_a_batch_that_the_file_sink_has_and_spark_had_not_committed_is_there_once(
    lines: Lines, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a crash between the sink's commit and Spark's."""
    for name in ("2", ".2.crc"):
        (lines.original / "commits" / name).unlink()
    code, told = adopted(lines, capsys, "--sink", str(lines.out))
    assert code == 0
    assert (told["barrier_batch_id"], told["planned_batch_id"], told["sink_batch_id"]) == (1, 2, 2)
    lines.put("four")
    lines.run()
    assert lines.read() == ["four", "one", "three", "two"]


def test_a_directory_that_is_older_than_its_output_is_refused(
    lines: Lines, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A backup of the directory: under ids that the sink has, other rows would come, and be skipped."""
    for log in ("commits", "offsets"):
        for name in ("2", ".2.crc"):
            (lines.original / log / name).unlink()
    code, told = adopted(lines, capsys, "--sink", str(lines.out))
    assert code == 2
    assert "has batch 2: the directory is older than its output" in told["error"]["message"]
    assert list((tmp_path / "home").iterdir()) == [], "refused before anything is touched"


def test_an_empty_place_is_not_the_output_of_a_query_that_was_adopted(
    lines: Lines, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Else the output would be in two places, without a word."""
    assert adopted(lines, capsys)[0] == 0
    written, lines.out = lines.out, tmp_path / "elsewhere"
    lines.put("four")
    with pytest.raises(Conflict, match="elsewhere"):
        lines.run()
    lines.out = written
    lines.run()
    assert lines.read() == ["four", "one", "three", "two"]


def test_what_is_damaged_is_refused(lines: Lines, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    offsets = lines.original / "offsets" / "2"
    offsets.write_bytes(offsets.read_bytes()[:-5])
    code, told = adopted(lines, capsys)
    assert (code, told["error"]["exit_code"]) == (4, 4)
    assert "offsets/2" in told["error"]["message"]
    assert list((tmp_path / "home").iterdir()) == []


def test_a_dry_run_writes_nothing_and_a_second_time_is_harmless(
    lines: Lines, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, told = adopted(lines, capsys, "--dry-run")
    assert (code, told["checkpoint"], told["barrier_batch_id"]) == (0, None, 2)
    assert list((tmp_path / "home").iterdir()) == []
    assert adopted(lines, capsys)[1]["checkpoint"] == 1
    assert adopted(lines, capsys)[1]["checkpoint"] == 1, "it holds the directory already"


def test_what_is_no_checkpoint_directory_or_one_of_holdfast_is_refused(
    lines: Lines, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.rmtree(lines.out)
    lines.run()
    lines.original = tmp_path / "in"
    code, told = adopted(lines, capsys)
    assert (code, "not a checkpoint directory of Spark" in told["error"]["message"]) == (3, True)
    (lines.original,) = (path.parent for path in (tmp_path / "work" / "lines").glob("*/metadata"))
    code, told = adopted(lines, capsys)
    assert (code, "work directory of job 'lines'" in told["error"]["message"]) == (2, True)


@pytest.mark.parametrize(
    ("location", "home", "why"),
    [
        ("wasb://container/checkpoints", "/homes", "holdfast does not know wasb://"),
        ("checkpoints", "checkpoints/home", "contains the home"),
        ("/", "/homes", "contains the home"),
    ],
)
def test_places_that_cannot_be_are_refused(
    location: str,
    home: str,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    place = home if home.startswith("/") else tmp_path / home
    assert main(["adopt", location, "--home", f"file://{place}", "--job", "lines"]) == 2
    assert why in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_query_that_runs_meanwhile_leaves_no_checkpoint(lines: Lines) -> None:
    """Files may have been copied before and after its batch."""
    directory = work_directory(lines.original)
    original = adopting.examine(directory, work_directory(lines.root))
    target = JobHome(JobName("lines"), lines.home, open_store(lines.home).scoped("lines"))

    class Meanwhile:
        def __init__(self, total: int) -> None:
            assert total == original.bytes

        def __enter__(self) -> Any:
            directory.write_atomic("offsets/3", directory.read("offsets/2"))
            return lambda count: None

        def __exit__(self, *exc: object) -> None:
            return None

    with pytest.raises(Conflict, match="a query runs there, offsets/3 has changed meanwhile"):
        adopting.adopt(original, target, Meanwhile)
    assert target.state().completed == {}


def test_a_home_that_is_emptied_meanwhile_has_no_checkpoint_of_it(lines: Lines, tmp_path: Path) -> None:
    original = adopting.examine(work_directory(lines.original), work_directory(lines.root))
    target = JobHome(JobName("lines"), lines.home, open_store(lines.home).scoped("lines"))

    @contextmanager
    def emptied(total: int) -> Iterator[Any]:
        yield lambda count: None
        for folder in ("blobs", "packs"):
            shutil.rmtree(tmp_path / "home" / "lines" / folder, ignore_errors=True)

    with pytest.raises(HomeReplaced, match="were uploaded and are missing"):
        adopting.adopt(original, target, emptied)
    assert target.state().completed == {}


def test_a_directory_on_an_object_store_is_adopted(
    lines: Lines, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its output there, and the marks of folders that some clients leave."""
    with s3_server(tmp_path / "s3") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        url = server.home("orders").replace("s3://", "s3a://")
        for folder in (lines.original, lines.out):
            store = open_store(url).scoped(folder.name)
            for path in folder.rglob("*"):
                if path.is_file() and not path.name.endswith(".crc"):
                    store.put(str(path.relative_to(folder)), path.read_bytes())
        local, lines.original = lines.original, Path("never read")
        options = ["--home", lines.home, "--job", "lines", "--watch", "0", "--json", "--sink", beside(url, "out")]
        assert main(["adopt", beside(url, "checkpoints"), *options]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["barrier_batch_id"], told["sink_batch_id"], told["checkpoint"]) == (2, 2, 1)
        shutil.rmtree(local)
        lines.put("four")
        lines.run()
    assert lines.read() == ["four", "one", "three", "two"]


def beside(url: str, name: str) -> str:
    """The folder `name` below a URL that may have options."""
    path, mark, options = url.partition("?")
    return f"{path}/{name}{mark}{options}"


def test_a_missing_file_is_damage(lines: Lines) -> None:
    (lines.original / "sources" / "0" / "1").unlink()
    with pytest.raises(Corrupt, match="sources/0/1 does not exist"):
        adopting.examine(work_directory(lines.original), work_directory(lines.root))
