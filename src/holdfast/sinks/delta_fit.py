"""Checks whether this sink can write to a Delta table: protocol, properties, columns, partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import Conflict, InvalidSettings
from holdfast.sinks.delta_partitions import require_partition_columns
from holdfast.sinks.files_columns import schema_in
from holdfast.sinks.protocol import StagedBatch
from holdfast.sinks.schemas import Field, changed_types, differences, fields_of
from holdfast.sinks.staging import size_of

KNOWN_FEATURES = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
    "variantType",
    "variantType-preview",
}
"""Table features that require nothing from a writer that adds files, or only if a column or property uses them, and
that deltalake 1.6.6 commits to. It refuses others (clustering, domainMetadata, typeWidening, …) at the commit, which is
too late: by then batches may have been abandoned."""
_UNMET_PROPERTIES = {
    "delta.columnMapping.mode": "it maps column names",
    "delta.setTransactionRetentionDuration": "it forgets transaction ids, on which exactly-once rests",
    "delta.enableRowTracking": "it tracks rows",
    "delta.enableInCommitTimestamps": "it wants a time in each commit",
    "delta.enableIcebergCompatV1": "it wants files that Iceberg can read",
    "delta.enableIcebergCompatV2": "it wants files that Iceberg can read",
}
_UNSET = ("none", "false", "")
_UNMET_NOTES = {
    "delta.invariants": "has an invariant",
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "__CHAR_VARCHAR_TYPE_STRING": "is limited in length",
}
APPEND_ONLY = "delta.appendOnly"


def require_fit(attempt: str, ours: Sequence[Field], table: Any, asked_partitions: tuple[str, ...] | None) -> None:
    """Refuse a table that rows of `ours` do not fit into, or that is not partitioned as it was asked for."""
    lines = [*demands(table), *misfits(ours, table)]
    if lines:
        raise InvalidSettings(
            f"could not {attempt}: the table requires what this sink does not do, or the query's columns do not "
            "fit:\n  " + "\n  ".join(lines),
            hint="change the query, change the table, or write to a new one",
        )
    existing = tuple(table.metadata().partition_columns)
    require_partition_columns(ours, existing)
    if asked_partitions is not None and asked_partitions != existing:
        shown = ", ".join(existing) or "nothing"
        raise InvalidSettings.of("partition_by", list(asked_partitions), f"the table is partitioned by {shown}")


def require_staged_fit(described: str, place: Path, batches: Sequence[StagedBatch], table: Any) -> None:
    """An earlier run staged files with the columns of its query. Since then query and table may have changed. All files
    of a run have the same columns."""
    staged = {batch.fencing_epoch: batch.files[0] for batch in batches if batch.files}
    for file in staged.values():
        schema = schema_in(place / file.path) if size_of(place / file.path) == file.size else None
        if schema is not None and (lines := staged_misfits(fields_of(schema), table)):
            raise Conflict(
                f"could not publish to {described}: {file.path} was staged by an earlier run, for other columns:\n  "
                + "\n  ".join(lines),
                hint="add these columns to the table again and start the query that staged the files: their rows are "
                "then published; or go back to a checkpoint before these batches: --from-checkpoint",
            )


def demands(table: Any) -> Iterator[str]:
    """What the table requires and this sink does not do, one line each."""
    protocol, configuration = table.protocol(), table.metadata().configuration
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    for feature in sorted(features - KNOWN_FEATURES):
        yield f"it has the table feature {feature}, which this sink cannot write to"
    for key, value in configuration.items():
        if reason := _reason(key, value):
            yield f"{reason} ({key}={value})"
    for field in fields_of(table.schema().to_json()):
        for note, reason in _UNMET_NOTES.items():
            if note in field["metadata"]:
                yield f"column {field['name']} {reason} ({field['metadata'][note]})"


def _reason(key: str, value: str) -> str | None:
    if key.startswith("delta.constraints."):
        return "it has check constraints"
    return None if str(value).lower() in _UNSET else _UNMET_PROPERTIES.get(key)


def misfits(ours: Sequence[Field], table: Any) -> list[str]:
    """Why rows of `ours` do not fit into the table's columns."""
    return differences(ours, fields_of(table.schema().to_json()))


def staged_misfits(staged: Sequence[Field], table: Any) -> list[str]:
    """Why files that were staged with these columns do not fit into the table. A column that they lack is null there;
    partition columns are in no file."""
    metadata, columns = table.metadata(), fields_of(table.schema().to_json())
    there = {field["name"] for field in columns}
    held = {field["name"] for field in staged} | set(metadata.partition_columns)
    lines = [f"{field['name']}: the files have it, the table has not" for field in staged if field["name"] not in there]
    lines += [
        f"{field['name']}: the table refuses nulls, the files have no such column"
        for field in columns
        if field["name"] not in held and not field["nullable"]
    ]
    return lines + changed_types(staged, columns)


def is_append_only(table: Any) -> bool:
    configuration: Mapping[str, str] = table.metadata().configuration
    return str(configuration.get(APPEND_ONLY, "false")).lower() == "true"


def has_deletion_vectors(table: Any) -> bool:
    return "deletionVectors" in (table.protocol().writer_features or ())
