"""Sources that discard data when Spark commits a batch.

Spark's commit of a batch is not durable: the work directory is disposable. A source may discard only what a checkpoint
in the home covers. One that deletes, archives or acknowledges at Spark's commit loses rows when the disk is lost, so it
is refused. An unknown source causes a warning.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame

from holdfast.errors import InvalidSettings
from holdfast.job_log import log
from holdfast.spark.planning import sequence

_KEEPING = re.compile(r"kafka|rate|rate-micro-batch|delta|iceberg|hudi|(aws-)?kinesis|eventhubs", re.IGNORECASE)
"""Spark reads them by position, and its commits do not change what they retain."""
_QUEUES = re.compile(r"pulsar|pub-?sub|sqs|rabbit|amqp|activemq|jms|mqtt|redis|nats|solace|socket", re.IGNORECASE)
"""They acknowledge at Spark's commit, or retain nothing, so they cannot be read again."""
_PYTHON = "PythonDataSourceV2"


def require_keeping_sources(frame: DataFrame) -> None:
    """Refuse a source that discards data at Spark's commit, before anything is changed."""
    try:
        leaves = sequence(frame._jdf.queryExecution().analyzed().collectLeaves())
        streams = [leaf for leaf in leaves if leaf.isStreaming()]
    except Exception:
        return  # this version of Spark has no such plan; the query's facts report it
    for leaf in streams:
        _require_keeping(frame, leaf)


def _require_keeping(frame: DataFrame, leaf: Any) -> None:
    name, kind = str(leaf.sourceName()), _implementation(leaf)
    if name.startswith("FileSource["):
        _require_files_kept(name.removeprefix("FileSource[").removesuffix("]"), _options(leaf))
    elif kind.endswith(_PYTHON):
        _require_no_commit(frame, name, leaf)
    elif _QUEUES.search(name) or _QUEUES.search(kind.rpartition(".")[2]):
        raise _refusal(f"the source {name!r} acknowledges what Spark has committed, or keeps nothing to be read again")
    elif not _KEEPING.fullmatch(name):
        _warn(name)


def _require_files_kept(path: str, options: dict[str, str]) -> None:
    mode = options.get("cleansource", "off").lower()
    if mode in ("delete", "archive"):
        verb = "deletes" if mode == "delete" else "archives"
        raise _refusal(
            f"the file source {path} has cleanSource={mode}: Spark {verb} the files of a batch when it commits it",
            "leave cleanSource out, and delete files yourself when they are older than the oldest checkpoint",
        )


def _require_no_commit(frame: DataFrame, name: str, leaf: Any) -> None:
    try:
        acts = _overrides_commit(frame, name, leaf)
    except Exception as error:
        log.debug("could not inspect the reader of %s: %s", name, error)
        _warn(name)
        return
    if acts:
        raise _refusal(
            f"the stream reader of the Python data source {name!r} has a commit method, which Spark calls when it "
            "commits a batch",
            "leave commit out, so that what was read can be read again from the offsets of a checkpoint",
        )


def _overrides_commit(frame: DataFrame, name: str, leaf: Any) -> bool:
    """Spark keeps the class pickled. It is instantiated as Spark does: with the options of the query."""
    from pyspark.sql.datasource import DataSourceStreamReader, SimpleDataSourceStreamReader

    reader = _reader(frame, name, leaf)
    inherited = {DataSourceStreamReader.commit, SimpleDataSourceStreamReader.commit}
    return type(reader).commit not in inherited


def _reader(frame: DataFrame, name: str, leaf: Any) -> Any:
    from pyspark.errors import PySparkNotImplementedError
    from pyspark.serializers import CloudPickleSerializer
    from pyspark.sql.types import StructType

    source = CloudPickleSerializer().loads(_pickled(frame, name))(_options(leaf, as_given=True))
    schema = StructType.fromJson(json.loads(str(leaf.schema().json())))
    try:
        return source.streamReader(schema)
    except PySparkNotImplementedError:
        return source.simpleStreamReader(schema)


def _pickled(frame: DataFrame, name: str) -> bytes:
    known = frame.sparkSession._jsparkSession.sessionState().dataSourceManager().lookupDataSource(name)
    return bytes(known.dataSourceCls().command().unsafeArray())


def _implementation(leaf: Any) -> str:
    with suppress(Exception):
        return str(leaf.source().get().getClass().getName())
    with suppress(Exception):
        return str(leaf.dataSource().className())
    return ""


def _options(leaf: Any, *, as_given: bool = False) -> dict[str, str]:
    with suppress(Exception):
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            found = dict(leaf.extraOptions().asCaseSensitiveMap())
        else:
            found = {str(pair._1()): str(pair._2()) for pair in sequence(leaf.dataSource().options().toSeq())}
        return found if as_given else {key.lower(): value for key, value in found.items()}
    return {}


def _refusal(why: str, hint: str | None = None) -> InvalidSettings:
    return InvalidSettings(
        f"{why}; after a crash with a lost disk the job goes back to a checkpoint and needs those rows again: they "
        "would be lost",
        hint=hint or "bring what it has into Kafka, or into files or a table, and read that",
    )


def _warn(name: str) -> None:
    log.warning(
        "holdfast does not know the source %s: if it deletes or acknowledges what Spark has committed, rows are lost "
        "when the work directory is; what it gave must be readable again from the offsets of the oldest checkpoint",
        name,
    )
