"""State, or a log of the checkpoint, could not be read back."""

import re

from holdfast.doctor.findings.guides import guide, info_if_told, or_told, unless_shown
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.findings.storage_trouble import FILE_OF_SPARKS_CHECKPOINT_GONE, storage_trouble
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "state-unreadable"

_CHANGED = re.compile(
    r"StateMigrationException|must not be incompatible|OutOfMemory|OUT_OF_MEMORY|SCHEMA_NOT_COMPATIBLE"
    r"|Failed to rollback to checkpoint|INVALID_CHANGE_LOG_READER_VERSION|UNRELEASED_THREAD_ERROR"
    r"|ROW_FORMAT_VALIDATION|Unable to find class|ClassNotFoundException|NoClassDefFoundError|InvalidClassException"
)
_CORRUPT = re.compile(
    r"Bad table magic number|Corruption|[Cc]hecksum (?:verification|mismatch|error)|ChecksumException|CHECKSUM"
    r"|StreamCorruptedException|UNEXPECTED_FILE_SIZE|KEY_SIZE|VALUE_SIZE|file is too short|Sst file size mismatch"
    r"|block checksum|Invalid checkpoint lineage|Unexpected magic number|ZipException|MALFORMED_LOG_FILE"
    r"|Mismatch in unique ID|Incomplete log file|EOFException|unexpected end of file|UTFDataFormatException"
    r"|BASE_CHECKPOINT_ID_MISMATCH|JOIN_INCONSISTENT_STATE"
)
_MISSING = re.compile(
    r"does not exist|doesn't exist|NOT_EXISTS|MISSING|No such file|FileNotFoundException|NoSuchFileException|NoSuchKey"
    r"|Cannot find (?:a base snapshot|checkpoint or savepoint|meta data file)|BATCH_METADATA_NOT_FOUND"
    r"|Unable to find batch|while fetching MetaData|have been deleted|LOCATION_NOT_EMPTY|PARTITION_ID_NOT_FOUND"
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if _CHANGED.search(text):
        return None
    for name, pattern in (("corrupt", _CORRUPT), ("missing", _MISSING)):
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    trouble = storage_trouble(text)
    if trouble is not None:
        return Clue(shown(event, link_with(event, trouble[1])), "storage")
    return Clue(shown(event))


def _ends_before_its_cause(event: LogEvent) -> Clue | None:
    """What stopped the restore is not in the text."""
    return Clue(shown(event)) if len(event.exceptions) == 1 else None


def _file_is_gone(event: LogEvent) -> Clue | None:
    link = link_with(event, FILE_OF_SPARKS_CHECKPOINT_GONE)
    return Clue(shown(event, link), "missing") if link else None


_FALL_BACK = (
    "# start from an older one: flink run -s <state.checkpoints.dir>/<job id>/chk-<N-1>",
    "state.checkpoints.num-retained: 3",
)
_HOLDFAST = (
    "# recovery uses the newest older checkpoint that verifies; the bad directory is kept for inspection",
    "# holdfast verify --all verifies every byte; holdfast restore --checkpoint ID --to DIR restores one by hand",
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="state of a checkpoint could not be read back",
    rules=(
        Rule(
            CODE,
            (
                "Bad table magic number",
                "Could not restore",
                "CANNOT_LOAD_STATE_STORE",
                "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
                "STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED",
                "Error reading delta file",
                "Error reading snapshot file",
                "Error reading streaming state file",
                "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
                "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
                "BATCH_METADATA_NOT_FOUND",
                "STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH",
                "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
                "STREAM_STREAM_JOIN_INCONSISTENT_STATE",
                "which is required to restart the query",
                "MALFORMED_LOG_FILE",
                "Incomplete log file",
                "Failed to retrieve checkpoint",
                "Cannot find checkpoint or savepoint file/directory",
                "Could not retrieve checkpoint",
                "RocksDBException: Corruption",
                "block checksum mismatch",
                "CURRENT file does not end with newline",
                "while stat a file for size",
                "Sst file size mismatch",
                "missing start of fragmented record",
                "no meta-nextfile entry in descriptor",
                "While open a file for random read",
                "While opening a file for sequentially reading",
                "Error while opening RocksDB instance",
                "loadCheckpointMetadata",
                "while fetching MetaData",
                "Cannot recover from this checkpoint because",
                "Error loading state store provider",
                "While open a file for appending",
                "when compacting batch",
            ),
            _recognise,
        ),
        Rule(CODE, (" does not exist", " doesn't exist"), _file_is_gone),
        Rule(CODE, ("Exception while creating StreamOperatorStateContext",), _ends_before_its_cause),
        guide(CODE, "corrupt", "local task recovery", "Task local recovery", "task-local recovery"),
    ),
    causes=(
        Cause(
            "corrupt",
            "files of the checkpoint or of the local copy are damaged: half-written, overwritten by another "
            "deployment, or corrupted on the volume or in transit",
            Fix(
                flink=(
                    "state.backend.local-recovery: true",
                    "process.taskmanager.working-dir: <local disk of this TaskManager alone>",
                    *_FALL_BACK,
                ),
                spark=(
                    "spark.sql.streaming.stateStore.checkpointFormatVersion=2",
                    "# restore the file named above from a copy; Spark has no older checkpoint to fall back to",
                ),
                holdfast=_HOLDFAST,
            ),
            or_told(for_variant("corrupt"), "corrupt"),
        ),
        Cause(
            "missing",
            "files that the checkpoint refers to are gone: deleted by a lifecycle rule, by hand, or by another "
            "deployment",
            Fix(
                flink=("# exempt state.checkpoints.dir, also its shared/ directory, from clean-up jobs", *_FALL_BACK),
                spark=(
                    "spark.sql.streaming.minBatchesToRetain=100",
                    "# exempt checkpointLocation from clean-up jobs and lifecycle rules; restore the file from a copy",
                ),
                holdfast=_HOLDFAST,
            ),
            for_variant("missing"),
        ),
        Cause(
            "storage",
            "the storage did not return the state: no access, or no connection",
            Fix(
                flink=("# allow the job's role to read state.checkpoints.dir from every TaskManager",),
                spark=("# allow the job's role to read checkpointLocation from every executor",),
                holdfast=("# holdfast verify --job NAME reads with the same credentials",),
            ),
            for_variant("storage"),
        ),
        Cause(
            "unknown",
            "the state backend could not open the state; the innermost exception names the file",
            Fix(
                flink=("state.backend.local-recovery: true", *_FALL_BACK),
                spark=("# restore the state directory from a copy",),
                holdfast=_HOLDFAST,
            ),
            always(),
        ),
    ),
    references=("Flink docs: Tuning Checkpoints and Large State, task-local recovery", "SPARK-51988"),
    enough=unless_shown,
    grade=info_if_told,
)
