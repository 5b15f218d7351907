"""The doctor's pipeline on Spark: the same answer as without it, from every kind of place, kept, and followed."""

import gzip
import threading
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES as ALL_RULES
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.engines import PLAIN
from holdfast.doctor.matching.examination import added_up, examine_here
from holdfast.doctor.matching.scanning import scan
from holdfast.doctor.matching.sightings import Sighting
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.inputs import Inputs, pieces_of, resolve
from holdfast.doctor.spark.following import follow
from holdfast.doctor.spark.pipeline import examine
from holdfast.doctor.spark.table import table
from holdfast.errors import NotFound
from tests.doctor.collection import CASES
from tests.doctor.real import LOGS
from tests.doctor.wild import HERE as WILD
from tests.patience import PATIENCE

HEAD = "2026-01-02 03:04:{second:02d},000 {level}  org.apache.flink.Foo     [] - {message}"


def recognise(event: LogEvent) -> Clue | None:
    return Clue(event.message, variant="/".join(link.class_name for link in event.exceptions))


RULES = (Rule("seen", ("the needle",), recognise),)


def log(number: int, events: int) -> str:
    lines = []
    for each in range(events):
        if each % 5 == 0:
            lines += [HEAD.format(second=each % 60, level="WARN", message=f"Checkpoint {each} of job-{number} failed")]
            lines += ["java.io.IOException: outer", "\tat a.B.c(B.java:1)"]
            lines += ["Caused by: java.net.ConnectException: the needle", "\t... 3 more"]
        else:
            lines += [HEAD.format(second=each % 60, level="INFO", message=f"Completed checkpoint {each}")]
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("logs")
    (place / "a b.log").write_text(log(1, 2000))
    (place / "b.log.gz").write_bytes(gzip.compress(log(2, 300).encode()))
    with pa.output_stream(str(place / "c.zst"), compression="zstd") as file:
        file.write(log(3, 200).encode())
    (place / "broken.log").write_bytes(b"\xff\xfe\xe4\n" + log(4, 50).encode())
    return place


def test_every_case_on_spark_as_in_the_process(spark: SparkSession) -> None:
    """One set of rules, one way of deciding, two ways of feeding: the same report on every case."""
    folders = [CASES, LOGS, WILD / "first", WILD / "second"]
    files = sorted(str(path) for folder in folders for path in folder.iterdir())
    on_spark = examine(spark, Inputs(tuple(files), ()), ALL_RULES)
    for file in files:
        here = examine_here([file], ALL_RULES, PLAIN)
        there = [sighting for sighting in on_spark.sightings if sighting.key.source == file]
        assert diagnose(there) == diagnose(here.sightings), file


def test_on_spark_as_without(spark: SparkSession, logs: Path) -> None:
    inputs = resolve([str(logs)])
    found = examine(spark, inputs, RULES, size=60_000)
    alone = added_up(scan(piece, RULES) for piece in pieces_of(inputs.files))
    assert found.sightings == alone.sightings
    assert (found.files, found.lines, found.events, found.unparsed) == (4, alone.lines, alone.events, 1)
    assert sum(sighting.count for sighting in found.sightings) == (2000 + 300 + 200 + 50) // 5
    for sighting in found.sightings:
        for sample in sighting.samples:
            if sample.source.endswith("a b.log"):
                assert log(1, 2000).splitlines()[sample.line - 1].endswith(sample.text)


def test_what_only_spark_can_reach(spark: SparkSession, logs: Path) -> None:
    """A local directory, read the way of `s3a://` and `hdfs://`."""
    found = examine(spark, Inputs((), (f"file://{logs}",)), RULES)
    alone = examine(spark, resolve([str(logs)]), RULES)
    assert places(found.sightings) == places(alone.sightings)
    assert (found.files, found.lines, found.events, found.unparsed) == (4, alone.lines, alone.events, alone.unparsed)
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") == "134217728b"
    with pytest.raises(NotFound, match="nowhere"):
        examine(spark, Inputs((), (f"file://{logs}/nowhere",)), RULES)


def places(sightings: Sequence[Sighting]) -> set[tuple[str, int, int]]:
    return {
        (Path(sample.source).name, sample.line, sighting.count) for sighting in sightings for sample in sighting.samples
    }


def test_the_table_can_be_kept_and_queried(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    found = examine(spark, resolve([str(logs)]), RULES, size=60_000)
    table(spark, found.first_lines).write.parquet(str(tmp_path / "table"))
    kept = spark.read.parquet(str(tmp_path / "table"))
    assert kept.count() == found.events
    rows = kept.where("level = 'WARN' AND exceptions[1].class_name = 'java.net.ConnectException'")
    (row,) = rows.where("checkpoint = 15 AND source LIKE '%a b.log'").collect()
    assert log(1, 2000).splitlines()[row.line - 1].endswith(row.message)
    assert (row.logger, row.frames, row.time.second) == ("org.apache.flink.Foo", ["a.B.c"], 15)


def test_a_directory_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    directory.mkdir()
    growing = directory / "job.log"
    growing.write_text(log(1, 10))
    heard: list[Sighting] = []
    news = threading.Event()

    def told(sightings: Sequence[Sighting]) -> None:
        heard.extend(sightings)
        news.set()

    query = follow(spark, str(directory), RULES, tmp_path / "checkpoint", "200 milliseconds", told)
    try:
        assert news.wait(PATIENCE)
        news.clear()
        growing.rename(directory / "job.log.1")
        with (directory / "job.log.1").open("a") as file:
            file.write(log(1, 1))
        assert news.wait(PATIENCE)
    finally:
        query.stop()
    assert query.exception() is None
    assert sum(sighting.count for sighting in heard) == 3
    assert heard[-1].samples[0].line == log(1, 10).count("\n") + 1
