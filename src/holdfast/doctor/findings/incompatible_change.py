"""The program changed in a way that the checkpoint does not allow."""

import re

from holdfast.doctor.clues import Clue, Rule
from holdfast.doctor.events import LogEvent
from holdfast.doctor.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.reading import link_with, shown, whole

CODE = "incompatible-change"
_SCHEMA = re.compile(
    r"SCHEMA_NOT_COMPATIBLE|StateSchemaNotCompatible|Provided (?:key |value )?schema d|StateMigrationException"
    r"|must not be incompatible|InvalidUnsafeRow|ROW_FORMAT_VALIDATION|serializer"
)
_OPERATORS = re.compile(
    r"NOT_MATCH_IN_STATE_METADATA|no operator for the state|Cannot map checkpoint|sources in the checkpoint offsets"
    r"|operator is not available"
)
_PARALLELISM = re.compile(r"max(?:imum)? ?parallelism", re.I)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    for name, pattern in (("parallelism", _PARALLELISM), ("operators", _OPERATORS), ("schema", _SCHEMA)):
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    return Clue(shown(event))


_HOLDFAST = ("# such a query is refused at its start, before anything is touched, with a table of the differences",)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the program does not fit the checkpoint that it is to continue from",
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
                "must not be incompatible",
                "Cannot map checkpoint/savepoint state",
                "There is no operator for the state",
                "Failed to rollback to checkpoint/savepoint",
                "STREAMING_QUERY_EVOLUTION_ERROR",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "operators",
            "operators or sources were added, removed or reordered, and the state of the checkpoint finds no owner",
            Fix(
                flink=(
                    "execution.savepoint.ignore-unclaimed-state: true",
                    "# set .uid() on every stateful operator, so that it is found again",
                ),
                spark=(
                    "# take the old query back, or start with a new checkpointLocation; stateful operators must "
                    "stay as they are",
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
                    "# take the old schema of keys and values back, or start with a new checkpointLocation",
                    "spark.sql.streaming.stateStore.stateSchemaCheck=true",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("schema"),
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
    references=("docs: State Schema Evolution", "docs: Recovery Semantics after Changes in a Streaming Query"),
)
