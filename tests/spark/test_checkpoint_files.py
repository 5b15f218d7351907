"""Which of Spark's ways of writing files a query under holdfast gets."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from holdfast.identifiers import JobName
from holdfast.runtime.ports import Supervisor
from holdfast.settings import Settings
from holdfast.spark.checkpoint_files import SETTING, quick_files
from holdfast.spark.query import SparkQuery
from holdfast.workdir.factory import work_directory
from tests.short_lived_jvm import USUAL_FILES


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """One in which nobody has chosen."""
    session = spark.newSession()
    session.conf.unset(SETTING)
    return session


def manager_of_a_query(session: SparkSession, work: Path) -> str:
    rows = session.readStream.format("rate").load().writeStream.format("noop")
    running = SparkQuery(session, JobName("rows"), rows, None, Settings(), lambda name: None)
    nobody = Supervisor(lambda: True, lambda: None)
    directory = SimpleNamespace(location=str(work), files=work_directory(work))
    running.start(directory, nobody)  # type: ignore[arg-type]
    assert running.query is not None
    try:
        used = running.query._jsq.streamingQuery().sparkSessionForStream().sessionState().newHadoopConf().get(SETTING)
        running.query.processAllAvailable()
    finally:
        running.stop()
    assert (work / "offsets" / "0").exists()
    return str(used).rpartition(".")[2]


def test_the_quick_way_when_nobody_has_chosen(session: SparkSession, tmp_path: Path) -> None:
    assert manager_of_a_query(session, tmp_path / "work") == "FileSystemBasedCheckpointFileManager"
    assert session.conf.get(SETTING, None) is None, "other queries of the session are left alone"


def test_the_way_that_the_user_has_chosen(session: SparkSession, tmp_path: Path) -> None:
    session.conf.set(SETTING, USUAL_FILES)
    assert manager_of_a_query(session, tmp_path / "work") == "FileContextBasedCheckpointFileManager"
    assert session.conf.get(SETTING) == USUAL_FILES


def test_queries_that_start_at_the_same_time(session: SparkSession) -> None:
    with quick_files(session):
        with quick_files(session):
            pass
        assert session.conf.get(SETTING, None) is not None, "the other one has not started yet"
    assert session.conf.get(SETTING, None) is None
