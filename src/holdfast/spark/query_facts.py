"""The facts of a query before its start: from its plan and from its session's settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

from holdfast.checkpoint.compatibility import COMPARED_SETTINGS
from holdfast.checkpoint.query_facts import CHANGELOG, Operator, QueryFacts, Source
from holdfast.job_log import log
from holdfast.showing import masked
from holdfast.spark.planning import planned_operators, sequence

_PLACES = ("path", "subscribe", "subscribepattern", "assign", "topic", "streamname", "table")
_SERVERS = ("kafka.bootstrap.servers", "host", "endpointurl")
"""Options that locate a source. No others are recorded: they may hold secrets."""


_CREDENTIALS = re.compile(r"//[^/@]*@")


def facts_of(built: DataFrame | DataStreamWriter, output_mode: str, kept: Mapping[str, str]) -> QueryFacts:
    """`kept`: the settings that Spark takes from the checkpoint; empty for a new query."""
    frame, mode = frame_and_mode(built, output_mode)
    spark = frame.sparkSession
    return QueryFacts(
        spark=pyspark.__version__,
        output_mode=mode,
        conf=_settings(spark, COMPARED_SETTINGS),
        sources=_sources(frame),
        operators=_operators(frame, mode or "append", kept),
    )


def frame_and_mode(built: DataFrame | DataStreamWriter, output_mode: str) -> tuple[DataFrame, str | None]:
    """The DataFrame and its output mode; the user's own writer has its own mode."""
    if isinstance(built, DataStreamWriter):
        return built._df, _mode_of(built)
    return built, output_mode


def _settings(spark: SparkSession, keys: Iterable[str]) -> dict[str, str]:
    found = {CHANGELOG: "false"}  # Spark's default, which has no entry in the configuration
    for key in keys:
        with suppress(Exception):  # this version of Spark does not have the setting
            found[key] = str(spark.conf.get(key))
    return found


def _operators(frame: DataFrame, mode: str, kept: Mapping[str, str]) -> tuple[Operator, ...] | None:
    try:
        return planned_operators(frame, mode, kept)
    except Exception as error:
        # The start goes on: Spark checks operators and schemas itself when the first batch runs.
        log.warning("could not inspect the query's state before the start: %s", str(error).partition("\n")[0])
        return None


def _mode_of(writer: DataStreamWriter) -> str | None:
    """PySpark's writer does not expose it, so it is read from a private field."""
    with suppress(Exception):
        fields = writer._jwrite.getClass().getDeclaredFields()
        field = next(field for field in fields if field.getName().lower() == "outputmode")
        field.setAccessible(True)
        return str(field.get(writer._jwrite).toString()).lower()
    return None


# --- sources ---


def _sources(frame: DataFrame) -> tuple[Source, ...] | None:
    """From left to right, as Spark numbers them."""
    try:
        leaves = sequence(frame._jdf.queryExecution().analyzed().collectLeaves())
        return tuple(_source(leaf) for leaf in leaves if leaf.isStreaming())
    except Exception as error:
        log.warning("could not inspect the query's sources before the start: %s", str(error).partition("\n")[0])
        return None


def _source(leaf: Any) -> Source:
    title = str(leaf.sourceName())
    options = {key.lower(): value for key, value in options_of(leaf).items()}
    files = title.startswith("FileSource[")
    place = next((options[name] for name in _PLACES if options.get(name)), None) or _table(leaf)
    if files and place is None:
        place = title.removeprefix("FileSource[").removesuffix("]")
    return Source(
        kind="files" if files else title,
        place=_shown(_plain_path(place) if place and (files or "path" in options) else place),
        servers=_shown(next((options[name] for name in _SERVERS if options.get(name)), None)),
        name=given_name(leaf),
    )


def options_of(leaf: Any) -> dict[str, str]:
    """As the pipeline gave them to the reader, with secrets."""
    if leaf.getClass().getSimpleName() == "StreamingRelationV2":
        return dict(leaf.extraOptions().asCaseSensitiveMap())
    pairs = sequence(leaf.dataSource().options().toSeq())
    return {str(pair._1()): str(pair._2()) for pair in pairs}


def _table(leaf: Any) -> str | None:
    with suppress(Exception):
        identifier = leaf.identifier()
        return str(identifier.get().toString()) if identifier.isDefined() else None
    return None


def given_name(leaf: Any) -> str | None:
    """The name that the user gave the source."""
    with suppress(Exception):  # since Spark 4.2
        given = leaf.sourceIdentifyingName().nameOpt()
        return str(given.get()) if given.isDefined() else None
    return None


def _shown(text: str | None) -> str | None:
    """Masked: the text is stored in the home, where others may read it."""
    return None if text is None else masked(text)


def _plain_path(path: str) -> str:
    """Normalizes the several spellings of one local path."""
    local = path.removeprefix("file:")
    if local != path or "://" not in path:
        return os.path.abspath("/" + local.lstrip("/") if local != path else local)
    return _CREDENTIALS.sub("//", path).rstrip("/")
