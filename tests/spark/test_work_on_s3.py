"""What a session needs before a query of it runs with its work directory on S3."""

import pytest
from pyspark.sql import SparkSession

from holdfast.checkpoint.query_facts import FORMAT, PROVIDER, Operator, QueryFacts
from holdfast.errors import InvalidSettings
from holdfast.spark.checkpoint_files import SETTING
from holdfast.spark.object_work import make_safe, unsafe_state
from holdfast.workdir.factory import work_directory

WORK = work_directory("s3a://bucket/work")
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        (FORMAT, "1", "overwrite the state of the one that took over"),
        (PROVIDER, HDFS, f"the session has {PROVIDER}="),
        (SETTING, "org.example.Manager", "cannot be written safely there"),
        (None, "", "lacks Hadoop's connector to S3"),
    ],
)
def test_a_session_in_which_files_could_be_overwritten_is_refused(
    spark: SparkSession, setting: str | None, value: str, why: str
) -> None:
    session = spark.newSession()
    for key in (FORMAT, PROVIDER, SETTING):
        session.conf.unset(key)
    if setting is not None:
        session.conf.set(setting, value)
    with pytest.raises(InvalidSettings, match=why):
        make_safe(session, WORK)
    make_safe(session, work_directory("/mnt/shared"))
    if setting is None:
        assert session.conf.get(FORMAT, None) is None, "a session that is refused stays as it was"


def test_state_that_would_be_overwritten_is_not_resumed_from() -> None:
    held = QueryFacts(conf={FORMAT: "1"}, operators=(Operator(0, "dedupe"),))
    refused = unsafe_state(WORK, held)
    assert refused is not None
    assert "the state of the newest checkpoint is in format 1" in refused.message
    assert unsafe_state(work_directory("/mnt/shared"), held) is None
    assert unsafe_state(WORK, QueryFacts(conf={FORMAT: "1"}, operators=())) is None, "it has no state"
    assert unsafe_state(WORK, QueryFacts(conf={FORMAT: "2"}, operators=held.operators)) is None
