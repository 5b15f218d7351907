"""The Kafka sources of a query, from its logical plan, with the options that the pipeline gave Spark's reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.job_log import log
from holdfast.sources.brokers import Brokers, BrokersFailed, Refused
from holdfast.sources.client_settings import NotTranslatable, client_settings
from holdfast.sources.kafka_client import KafkaClient
from holdfast.sources.kafka_input import KafkaInput
from holdfast.spark.key_stores import read_store
from holdfast.spark.planning import sequence
from holdfast.spark.query_facts import given_name, options_of

_SUBSCRIPTIONS = ("subscribe", "subscribepattern", "assign")


def kafka_inputs(frame: DataFrame) -> tuple[KafkaInput, ...]:
    """In the order of Spark's offset log. None where this version of Spark hides its plan."""
    try:
        leaves = sequence(frame._jdf.queryExecution().analyzed().collectLeaves())
        streams = [leaf for leaf in leaves if leaf.isStreaming()]
        return tuple(
            _input(frame.sparkSession, place, leaf)
            for place, leaf in enumerate(streams)
            if str(leaf.sourceName()).lower() == "kafka"
        )
    except Exception as error:
        log.debug("could not look for Kafka sources: %s", type(error).__name__)
        return ()


def _input(spark: SparkSession, place: int, leaf: Any) -> KafkaInput:
    options = {key.lower(): value for key, value in options_of(leaf).items()}
    return KafkaInput(
        name=given_name(leaf) or str(place),
        servers=options.get("kafka.bootstrap.servers", ""),
        subscribed=next((options[name] for name in _SUBSCRIPTIONS if name in options), ""),
        topics=_topics(options),
        fail_on_data_loss=options.get("failondataloss", "true").strip().lower() != "false",
        min_partitions=_number(options.get("minpartitions")),
        max_offsets=_number(options.get("maxoffsetspertrigger")),
        open=lambda: _opened(spark, options),
    )


def _number(given: str | None) -> int | None:
    return int(given) if given is not None and given.strip().isdecimal() else None


def _topics(options: Mapping[str, str]) -> tuple[str, ...]:
    if "subscribe" in options:
        return tuple(name.strip() for name in options["subscribe"].split(",") if name.strip())
    with suppress(ValueError):
        assigned = json.loads(options.get("assign", "{}"))
        return tuple(map(str, assigned)) if isinstance(assigned, dict) else ()
    return ()


def _opened(spark: SparkSession, options: Mapping[str, str]) -> Brokers:
    try:
        settings = client_settings(options, lambda store: read_store(spark, store))
    except NotTranslatable as error:
        raise BrokersFailed(Refused.NOT_TRANSLATED, f"could not log in: {error.message}", error.hint) from None
    committed = options.get("kafka.isolation.level", "").lower() == "read_committed"
    return KafkaClient(settings, read_committed=committed)
