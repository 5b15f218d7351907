"""Spark's own catalogue of errors: those about checkpoints and state are known by name, new kinds of them too."""

import json
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyspark
import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import observe
from tests.doctor.events import event

FOUND_AS = {
    "state-unreadable": (
        "BATCH_METADATA_NOT_FOUND",
        "CANNOT_LOAD_STATE_STORE",
        "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
        "MALFORMED_LOG_FILE",
        "STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH",
        "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
        "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
        "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
        "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        "STREAM_STREAM_JOIN_INCONSISTENT_STATE",
    ),
    "incompatible-change": (
        "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
        "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
        "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
        "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
        "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
        "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
        "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
        "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
        "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        "STREAMING_QUERY_EVOLUTION_ERROR",
        "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        "STREAM_STREAM_JOIN_INCOMPATIBLE_STATE_STORE_CONFIGS",
    ),
    "snapshot-write-failed": (
        "CANNOT_WRITE_STATE_STORE",
        "STATE_STORE_UNEXPECTED_EMPTY_FILE_IN_ROCKSDB_ZIP",
        "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
    ),
    "concurrent-stream-log": ("CONCURRENT_QUERY", "CONCURRENT_STREAM_LOG_UPDATE"),
}
BUT = {
    "CANNOT_LOAD_STATE_STORE.HDFS_STORE_PROVIDER_OUT_OF_MEMORY": "out-of-memory",
    "CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY": "out-of-memory",
    "CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE": "incompatible-change",
    "CANNOT_LOAD_STATE_STORE.VALUE_ROW_FORMAT_VALIDATION_FAILURE": "incompatible-change",
    "CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION": "incompatible-change",
    "CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR": "job-failed",
}
"""The last is about a thread that still holds the store, whose files are sound."""
CONDITIONS = [(code, name) for code, names in FOUND_AS.items() for name in names]


@pytest.mark.parametrize(("code", "name"), CONDITIONS, ids=[name for _, name in CONDITIONS])
def test_a_condition_about_checkpoints_is_known(code: str, name: str) -> None:
    for full_name, text in texts(name):
        ended = event(
            "Query q [id = 5a4b0c5e-2f0b-4a37-9f0d-3e1ad1f5a2c7] terminated with error",
            ("org.apache.spark.SparkException", f"[{full_name}] {text}"),
            logger="MicroBatchExecution",
        )
        found = [finding.code for finding in diagnose(observe([ended], RULES)) if finding.severity == "critical"]
        assert found == [BUT.get(full_name, code)], full_name


def texts(name: str) -> Iterator[tuple[str, str]]:
    condition = catalogue()[name]
    text = " ".join(condition["message"])
    details = condition.get("subClass")
    if not details:
        yield name, text
        return
    for detail, said in details.items():
        yield f"{name}.{detail}", f"{text} {' '.join(said['message'])}"


@cache
def catalogue() -> dict[str, dict]:  # type: ignore[type-arg]
    (jar,) = (Path(pyspark.__file__).parent / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as archive:
        found: dict[str, dict] = json.loads(archive.read("error/error-conditions.json"))  # type: ignore[type-arg]
    return found
