"""The program changed in a way that the checkpoint does not allow."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, always, for_variant
from holdfast.doctor.matching.case import Case, mentioned
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "incompatible-change"
_SCHEMA = re.compile(
    r"SCHEMA_NOT_COMPATIBLE|StateSchemaNotCompatible|Provided (?:key |value )?schema d|StateMigrationException"
    r"|must not be incompatible|InvalidUnsafeRow|ROW_FORMAT_VALIDATION|serializer"
    r"|VALUE_SCHEMA_EVOLUTION|COLUMN_FAMILY_SCHEMA|VARIABLE_TYPE_CHANGE|STATE_SCHEMA_FILES"
)
_OPERATORS = re.compile(
    r"NOT_MATCH_IN_STATE_METADATA|no operator for the state|Cannot map checkpoint|sources in the checkpoint offsets"
    r"|operator is not available|when topology changes"
)
_SOURCE = re.compile(
    r"DELTA_S(?:CHEMA_CHANGED|TREAMING_)\w*|[Dd]etected (?:incompatible )?schema change|incompatible schema change"
)
_VERSION = re.compile(r"CHANGE_LOG_READER_VERSION|produced by a newer version of Spark|FORMAT_VERSION_MISMATCH")
_SETTING = re.compile(
    r"Cannot change (?P<name>\S+) from (?P<before>\S+) to \S+ between restarts|INCOMPATIBLE_STATE_STORE_CONFIGS"
)
_PARALLELISM = re.compile(r"max(?:imum)? ?parallelism", re.I)


_GONE = re.compile(r"Unable to find class|ClassNotFoundException|NoClassDefFoundError|InvalidClassException")
_VARIANTS = (
    ("version", _VERSION),
    ("setting", _SETTING),
    ("source", _SOURCE),
    ("parallelism", _PARALLELISM),
    ("operators", _OPERATORS),
    ("schema", _SCHEMA),
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    for name, pattern in _VARIANTS:
        if match := pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name, _mentions(match))
    return Clue(shown(event))


def _class_is_gone(event: LogEvent) -> Clue | None:
    text = whole(event)
    return Clue(shown(event, link_with(event, _GONE)), "schema") if "Could not restore" in text else None


def _mentions(match: re.Match[str]) -> dict[str, str]:
    groups = match.groupdict()
    return {"setting": f"{groups['name']}={groups['before']}"} if groups.get("name") else {}


def _as_before(case: Case, seen: Sightings) -> Fix:
    settings = sorted(mentioned(seen, "setting"))
    return Fix(
        spark=(
            *settings,
            "# restore the value that the checkpoint was started with, or start with a new checkpointLocation",
        ),
        holdfast=_HOLDFAST,
    )


_HOLDFAST = ("# such a query is refused at its start, before anything is changed, with a table of the differences",)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the program does not fit the checkpoint that it is to resume from",
    rules=(
        Rule(
            CODE,
            (
                "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
                "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
                "StateSchemaNotCompatible",
                "schema doesn't match to the schema for existing state",
                "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
                "sources in the checkpoint offsets",
                "ROW_FORMAT_VALIDATION_FAILURE",
                "InvalidUnsafeRowException",
                "StateMigrationException",
                "Error while getting state",
                "must not be incompatible",
                "Cannot map checkpoint/savepoint state",
                "There is no operator for the state",
                "Failed to rollback to checkpoint/savepoint",
                "STREAMING_QUERY_EVOLUTION_ERROR",
                "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
                "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
                "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
                "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
                "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
                "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
                "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
                "STATE_CHECKPOINT_FORMAT_VERSION_MISMATCH",
                "INVALID_CHANGE_LOG_READER_VERSION",
                "produced by a newer version of Spark",
                "between restarts. Please set",
                "DELTA_SCHEMA_CHANGED",
                "DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART",
                "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
                "you have made an incompatible schema change",
                "does not support recovering from checkpoint location",
                "Cannot recover from unaligned checkpoint when topology changes",
                "of the restored state is lower than the configured parallelism",
                "and the current maximum parallelism",
            ),
            _recognise,
        ),
        Rule(
            CODE,
            ("Unable to find class", "ClassNotFoundException", "NoClassDefFoundError", "InvalidClassException"),
            _class_is_gone,
        ),
    ),
    causes=(
        Cause(
            "operators",
            "operators or sources were added, removed or reordered, and state of the checkpoint belongs to no operator",
            Fix(
                flink=(
                    "execution.savepoint.ignore-unclaimed-state: true",
                    "# set .uid() on every stateful operator, so that it is found again",
                ),
                spark=(
                    "# restore the old query, or start with a new checkpointLocation",
                    "# stateful operators must not change",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("operators"),
        ),
        Cause(
            "parallelism",
            "the maximum parallelism differs from the one the state was written with",
            Fix(flink=("pipeline.max-parallelism: <the value of the checkpoint>",), holdfast=_HOLDFAST),
            for_variant("parallelism"),
        ),
        Cause(
            "schema",
            "the type of the state changed in a way that cannot be migrated",
            Fix(
                flink=(
                    "# keep the old type, or migrate it with the State Processor API; avoid Kryo types in state",
                    "pipeline.generic-types: false",
                ),
                spark=(
                    "# restore the old schema of keys and values, or start with a new checkpointLocation",
                    "spark.sql.streaming.stateStore.stateSchemaCheck=true",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("schema"),
        ),
        Cause(
            "source",
            "the table that the query reads has another schema than when the checkpoint was started",
            Fix(
                spark=(
                    "# restart the query once: a supported change then takes effect",
                    "# .option('schemaTrackingLocation', <path below checkpointLocation>) before the next change",
                    "# else start with a new checkpointLocation",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("source"),
        ),
        Cause(
            "version",
            "the checkpoint was written by a newer version than the one that is to resume from it",
            Fix(
                flink=("# run it with the version that wrote the checkpoint, or a newer one",),
                spark=("# run it with the version that wrote the checkpoint, or a newer one",),
                holdfast=_HOLDFAST,
            ),
            for_variant("version"),
        ),
        Cause(
            "setting",
            "a setting that the checkpoint has fixed was changed",
            _as_before,
            for_variant("setting"),
        ),
        Cause(
            "unknown",
            "the program changed in a way that the checkpoint does not allow",
            Fix(
                flink=(
                    "# go back to the program that wrote the checkpoint, take a savepoint, and change in smaller steps",
                ),
                spark=("# go back to the query that wrote the checkpoint, or start with a new checkpointLocation",),
                holdfast=_HOLDFAST,
            ),
            always(),
        ),
    ),
    references=(
        "Flink docs: State Schema Evolution",
        "Spark docs: Recovery Semantics after Changes in a Streaming Query",
    ),
)
