"""A session that Spark can safely run a query in whose checkpoint directory is on S3.

Spark's own file managers rename there, which no server does: two runs may both be told that they wrote `commits/N`. So
ours writes (`src/jvm`). And only state format 2 gives each attempt at a batch files of its own; in format 1 a process
that was left behind overwrites the state of the one that took over.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pyspark.sql import SparkSession

from holdfast.checkpoint.query_facts import FORMAT, PROVIDER, QueryFacts
from holdfast.errors import InvalidSettings
from holdfast.job_log import log
from holdfast.spark.checkpoint_files import SETTING, exists
from holdfast.spark.held_plans import HeldPlans, plans_refusal
from holdfast.workdir.interface import WorkDirectory

SCHEME = "s3a"
_CONNECTOR = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_CONDITIONS = "org.apache.hadoop.fs.Options$CreateFileOptionKeys"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_NEEDED = {FORMAT: "2", PROVIDER: _ROCKSDB}
_OVERWRITES = (
    "on an object store a process that was left behind could overwrite the state of the one that took over, "
    "unless each attempt has files of its own"
)


def make_safe(session: SparkSession, work: WorkDirectory) -> None:
    """Raises `InvalidSettings` when a query of this session cannot run there safely. Does nothing for other places."""
    if work.scheme != SCHEME:
        return
    if (why := plans_refusal(session, work.location)) is not None:
        raise InvalidSettings.of("work", work.location, f"Spark's files cannot be written safely there: {why}")
    for setting, needed in _NEEDED.items():
        if (given := session.conf.get(setting, needed)) != needed:
            rule = f"{_OVERWRITES}: the session has {setting}={given}"
            raise InvalidSettings.of("work", work.location, rule, hint=f"set {setting}={needed}")
    _require_connector(session, work)
    for setting, needed in _NEEDED.items():
        session.conf.set(setting, needed)
    # For good: sources make their logs when the query runs already, with the settings that the session has then.
    session.conf.set(SETTING, HeldPlans(session, for_all_threads=True).name)
    _pass_on(session, work)


def unsafe_state(work: WorkDirectory, held: QueryFacts) -> InvalidSettings | None:
    """Why the query must not resume there. Spark goes on with the format that a checkpoint has."""
    if work.scheme != SCHEME or not held.operators or held.conf.get(FORMAT) != "1":
        return None
    rule = f"{_OVERWRITES}: the state of the newest checkpoint is in format 1"
    hint = "let the job go on in a work directory that is mounted, or on HDFS"
    return InvalidSettings.of("work", work.location, rule, hint=hint)


def _require_connector(session: SparkSession, work: WorkDirectory) -> None:
    jvm: Any = session.sparkContext._jvm
    version = jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    if not exists(jvm, _CONNECTOR):
        rule = f"the session lacks Hadoop's connector to S3, {_CONNECTOR}"
        hint = f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{version}; docs/cluster.md"
        raise InvalidSettings.of("work", work.location, rule, hint=hint)
    if not exists(jvm, _CONDITIONS):
        rule = f"Hadoop {version} cannot write under the condition that nothing has the name yet"
        raise InvalidSettings.of("work", work.location, rule, hint="use Spark 4.1 or newer: docs/cluster.md")


def _pass_on(session: SparkSession, work: WorkDirectory) -> None:
    """The options of the URL, for this bucket, unless the session has some."""
    parts = urlsplit(work.url)
    options = dict(parse_qsl(parts.query))
    settings = {"endpoint": options.get("endpoint"), "endpoint.region": options.get("region")}
    if "endpoint" in options:
        settings["path.style.access"] = options.get("path_style", "true")
    elif "path_style" in options:
        settings["path.style.access"] = options["path_style"]
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    for name, value in settings.items():
        setting = f"fs.s3a.bucket.{parts.netloc}.{name}"
        if value is not None and hadoop.get(setting) is None:
            session.conf.set(setting, value)
            log.debug("set %s=%s", setting, value)
