"""Determines why a query failed, from Spark's account of its end. Pure.

The text is a chain of exceptions as Java prints it, innermost last. The innermost one that matches a rule decides: "the
state could not be loaded" because the disk is full is not damage, and the message of a user's exception is never
mistaken for one of Spark's.

None of this is proof. `STATE_UNREADABLE` means that Spark read something and found it wrong, `STATE_NOT_LOADED` that it
could not load it: reasons to compare the bytes with what they should be (`candidates`), before anything is abandoned. A
failure of a disk, a network or a limit of the machine, anywhere in the chain, is neither.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from holdfast.errors import Fenced, HoldfastError, StorageError
from holdfast.runtime.query.exception_chain import Link, chain_of
from holdfast.runtime.query_end import EndedBy, QueryEnd


class FailureCause(StrEnum):
    USER_CODE = "user code"
    SOURCE = "source"
    SINK = "sink"
    STATE_UNREADABLE = "state unreadable"
    STATE_NOT_LOADED = "state not loaded"
    INCOMPATIBLE = "incompatible"
    STORAGE = "storage"
    OUT_OF_MEMORY = "out of memory"
    FENCED = "fenced"
    SPARK_GONE = "spark gone"
    STOPPED = "stopped from outside"
    UNKNOWN = "unknown"

    @property
    def hint(self) -> str:
        """What to change."""
        return _HINTS[self]


_HINTS = {
    FailureCause.USER_CODE: (
        "correct the pipeline's code, or the input that it fails on; nothing is lost, it resumes there"
    ),
    FailureCause.SOURCE: "look at what the query reads: is it there, readable and of the right format?",
    FailureCause.SINK: "look at where the query writes: is it there, writable and of the same columns?",
    FailureCause.STATE_UNREADABLE: "holdfast verify --all; what could not be read is kept in <work>/<job>/*.aside",
    FailureCause.STATE_NOT_LOADED: (
        "look at Spark's log, and at the memory, the limits and the disks of the machine; nothing is abandoned as"
        " long as the bytes are right"
    ),
    FailureCause.INCOMPATIBLE: (
        "start the query that the checkpoint is of, or give the changed one a new job name and a sink of its own;"
        " nothing is lost"
    ),
    FailureCause.STORAGE: (
        "look at the disks and file systems of the driver and the executors: full, read-only or gone?"
    ),
    FailureCause.OUT_OF_MEMORY: (
        "give Spark more memory (spark.driver.memory, spark.executor.memory, and for Python "
        "spark.executor.memoryOverhead), or each batch less to do (maxFilesPerTrigger, maxOffsetsPerTrigger)"
    ),
    FailureCause.FENCED: "stop one of the two deployments",
    FailureCause.SPARK_GONE: (
        "start the process again; Spark's log, or the kernel's (killed for memory?), shows why it ended"
    ),
    FailureCause.STOPPED: (
        "stop the job itself, by SIGTERM or its stop(): holdfast restarts a query that is stopped alone"
    ),
    FailureCause.UNKNOWN: "read Spark's log of that time: it has the whole chain of exceptions",
}
_INPUT_DELETED = re.compile(
    r"KAFKA_DATA_LOSS|data may have been lost|\[DELTA_(LOG_FILE_NOT_FOUND|MISSING_FILES|STREAMING_TRAILING)_"
)
_DELETED_HINT = (
    "restore what was deleted from the source, or resume without those rows: the source's option failOnDataLoss=false; "
    "from then on let the source keep its data longer than the job may be down"
)


SUSPICIONS = (FailureCause.STATE_UNREADABLE, FailureCause.STATE_NOT_LOADED)
"""Reasons to check the work directory."""


class StartFailed(Exception):
    """The query could not be started; the message is the chain of exceptions."""


class DirectoryBehind(Exception):
    """The work directory lacks batches of the job's newest checkpoint."""


@dataclass(frozen=True)
class QueryFailure:
    cause: FailureCause
    message: str
    """One line: the innermost exception, and for user code also where."""

    @property
    def input_is_deleted(self) -> bool:
        """The source has deleted what the query would read next: no restart brings it back."""
        return self.cause is FailureCause.SOURCE and bool(_INPUT_DELETED.search(self.message))

    @property
    def hint(self) -> str:
        """What to change."""
        return _DELETED_HINT if self.input_is_deleted else self.cause.hint

    def repeats(self, other: "QueryFailure") -> bool:
        """The same error again, apart from the numbers in it."""
        return self.cause is other.cause and _without_numbers(self.message) == _without_numbers(other.message)


@dataclass(frozen=True)
class _Rule:
    cause: FailureCause
    kind: re.Pattern[str]
    says: re.Pattern[str]
    within: re.Pattern[str]

    def knows(self, link: Link) -> bool:
        return bool(self.kind.search(link.kind) and self.says.search(link.message) and self.within.search(link.frames))


def _rule(cause: FailureCause, *, kind: str = "", says: str = "", within: str = "") -> _Rule:
    return _Rule(cause, re.compile(kind), re.compile(says), re.compile(within))


_OF_ANY_LANGUAGE = (
    _rule(FailureCause.FENCED, kind=r"^holdfast\.errors\.Fenced$"),
    _rule(FailureCause.OUT_OF_MEMORY, kind=r"\bOutOfMemoryError$|\bSparkOutOfMemoryError$|^MemoryError$"),
    _rule(
        FailureCause.STORAGE,
        kind=r"^OSError$|^PermissionError$|^holdfast\.errors\.Storage",
        says=r"\[Errno (1|5|12|13|23|24|28|30|110|111|116|122)\]",
    ),
)
_OF_SPARK = (
    _rule(
        FailureCause.OUT_OF_MEMORY,
        says=r"UNABLE_TO_ACQUIRE_MEMORY|_OUT_OF_MEMORY\b|Python worker exited unexpectedly|memory limits|OOMKilled",
    ),
    _rule(
        FailureCause.STORAGE,
        says=r"No space left on device|Disk quota exceeded|Read-only file system|Stale file handle",
    ),
    # The query differs from the directory's. No restart helps, and the directory is not damaged.
    _rule(
        FailureCause.INCOMPATIBLE,
        says=r"STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE"
        r"|STATE_STORE_INVALID_(VALUE_SCHEMA_EVOLUTION|CONFIG_AFTER_RESTART|VARIABLE_TYPE_CHANGE)"
        r"|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
        r"|STATE_STORE_(VALUE_SCHEMA_EVOLUTION|STATE_SCHEMA_FILES)_THRESHOLD_EXCEEDED"
        r"|STREAMING_STATEFUL_OPERATOR_(NOT_MATCH_IN_STATE_METADATA|MISSING_STATE_DIRECTORY)"
        r"|STREAMING_QUERY_EVOLUTION_ERROR|sources in the checkpoint offsets and now there are"
        r"|DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    ),
    # Spark's own problem with a sound store: another thread holds it, or it could not be written.
    _rule(
        FailureCause.UNKNOWN, says=r"CANNOT_LOAD_STATE_STORE\.(UNRELEASED_THREAD_ERROR|FAILED_TO_GET_CHANGELOG_WRITER)"
    ),
    # State or logs in the work directory that Spark has read and found wrong.
    _rule(
        FailureCause.STATE_UNREADABLE,
        says=r"(?i:bad table magic number|checksum mismatch)|Corruption:"
        r"|CANNOT_LOAD_STATE_STORE\.(CANNOT_READ_\w*_SIZE|INVALID_|UNEXPECTED_|\w*ROW_FORMAT)"
        r"|CHECKPOINT_FILE_CHECKSUM|STATE_STORE_(CHECKPOINT_LOCATION_NOT_EMPTY|(KEY|VALUE)_ROW_FORMAT|ROW_CHECKSUM)"
        r"|MALFORMED_LOG_FILE|INVALID_LOG_VERSION|(?i:log file was malformed)|Incomplete log file",
    ),
    _rule(
        FailureCause.STATE_UNREADABLE,
        kind=r"\.EOFException$|\.jackson\.|\.MappingException$|\.NumberFormatException$|\.IllegalArgumentException$",
        within=r"\.(HDFSMetadataLog|StreamMetadata|CommitLog|OffsetSeqLog|CompactibleFileStreamLog"
        r"|StateSchemaCompatibilityChecker|OperatorStateMetadata\w*)\$?\.",
    ),
    _rule(FailureCause.STATE_UNREADABLE, kind=r"\.AssertionError$", within=r"\A.*assert\n.*\.initializeExecution\n"),
    _rule(FailureCause.STATE_UNREADABLE, kind=r"\.ChecksumException$"),
    # It could not be loaded, for an unknown reason, or because a file was not found.
    _rule(
        FailureCause.STATE_NOT_LOADED,
        says=r"CANNOT_LOAD_STATE_STORE|MISSING_METADATA_FILE|^batch \d+ doesn't exist|delta file .* does not exist"
        r"|Error reading (delta|snapshot) file|/state/\S+ (\(No such file|does not exist)",
    ),
    _rule(FailureCause.STATE_NOT_LOADED, kind=r"\.RocksDBException$", says=r"No such file"),
    _rule(
        FailureCause.SOURCE,
        says=r"\[(FAILED_READ_FILE|PATH_NOT_FOUND|MALFORMED_RECORD_IN_PARSING|KAFKA_(?!NULL_TOPIC)"
        r"|PYTHON_STREAMING_DATA_SOURCE|UNABLE_TO_INFER_SCHEMA"
        r"|DELTA_(SOURCE_|STREAMING_|SCHEMA_CHANGED|LOG_FILE_NOT_FOUND|MISSING_FILES_UNEXPECTED_VERSION))",
    ),
    # Kafka's connector omits the error class with which Spark's own messages begin.
    _rule(FailureCause.SOURCE, says=r"not available in Kafka any more"),
    _rule(FailureCause.SOURCE, kind=r"^org\.apache\.spark\.sql\.kafka010\.", says=r"(?i)\boffset"),
    _rule(
        FailureCause.SINK,
        says=r"\[(TASK_WRITE_FAILED|PATH_ALREADY_EXISTS|DATA_SOURCE_EXTERNAL_ERROR)|Mkdirs failed|_spark_metadata\b",
    ),
    _rule(FailureCause.SINK, kind=r"\.(ParentNotDirectoryException|FileAlreadyExistsException)$"),
    _rule(FailureCause.SINK, kind=r"^org\.apache\.kafka\.", says=r"not present in metadata after|^Expiring \d+ record"),
    # For an offset that no longer exists, the enclosing message of Spark is more specific.
    _rule(FailureCause.SOURCE, kind=r"^org\.apache\.kafka\.(?!.*\bOffsetOutOfRangeException$)"),
    _rule(FailureCause.USER_CODE, kind=r"\.PythonException$|ForeachBatchUserFuncException$"),
    _rule(FailureCause.USER_CODE, says=r"\bSQLSTATE: (22|38|39)\w{3}"),
)


_OF_THE_MACHINE = _rule(
    FailureCause.STORAGE,
    says=r"(?i:No space left on device|Disk quota exceeded|Read-only file system|Stale (NFS )?file handle"
    r"|Input/output error|Too many open files|Cannot allocate memory|Permission denied|Operation not permitted"
    r"|Transport endpoint is not connected|Host is down|No such device|Resource temporarily unavailable"
    r"|Connection (refused|reset)|timed out|Could not obtain block|Filesystem closed|safe mode|File too large)",
)
_OF_THE_MACHINE_BY_KIND = _rule(
    FailureCause.STORAGE,
    kind=r"\.(ClosedByInterruptException|Interrupted(IO)?Exception|AccessControlException|AccessDeniedException"
    r"|BlockMissingException|CannotObtainBlockLengthException|SafeModeException|ConnectException|SocketException"
    r"|SocketTimeoutException|NoRouteToHostException|UnknownHostException|StandbyException|ClosedChannelException)$",
)
"""Failures of the machine while Spark reads state: they prove nothing about the state, anywhere in a chain."""


def failure_of_end(end: QueryEnd) -> QueryFailure:
    """Why a query failed that ended like this."""
    match end.by:
        case EndedBy.SPARK_GONE:
            return QueryFailure(FailureCause.SPARK_GONE, f"Spark is gone: {(end.text.splitlines() or [''])[0]}")
        case EndedBy.OUTSIDE:
            return QueryFailure(FailureCause.STOPPED, "the query was stopped, but not the job")
        case EndedBy.SINK:
            return failure_of_text(end.text, otherwise=FailureCause.SINK)
        case EndedBy.ERROR | EndedBy.REQUEST:
            return failure_of_text(end.text)


def failure_of_text(text: str, *, otherwise: FailureCause = FailureCause.UNKNOWN) -> QueryFailure:
    """Why a query failed that ended with this text."""
    chain = chain_of(text)
    for link in reversed(chain):
        if (cause := _cause_of(link)) is not None:
            return (
                _of_the_machine(chain) or QueryFailure(cause, link.line)
                if cause in SUSPICIONS
                else QueryFailure(cause, link.line)
            )
    innermost = next((link.line for link in reversed(chain) if link.line), "")
    return QueryFailure(otherwise, innermost)


def _of_the_machine(chain: tuple[Link, ...]) -> QueryFailure | None:
    """Applies even when an inner exception is about the state."""
    rules = (_OF_THE_MACHINE, _OF_THE_MACHINE_BY_KIND)
    link = next((link for link in reversed(chain) if any(rule.knows(link) for rule in rules)), None)
    return None if link is None else QueryFailure(FailureCause.STORAGE, link.line)


def failure_of_start(error: Exception) -> QueryFailure:
    """Why a restart failed."""
    match error:
        case StartFailed():
            return failure_of_text(str(error))
        case DirectoryBehind():
            return QueryFailure(FailureCause.STATE_UNREADABLE, str(error))
        case Fenced():
            return QueryFailure(FailureCause.FENCED, error.message)
        case StorageError():
            return QueryFailure(FailureCause.STORAGE, error.message)
        case HoldfastError():
            return QueryFailure(FailureCause.UNKNOWN, error.message)
    return failure_of_text(f"{type(error).__module__}.{type(error).__qualname__}: {error}")


def _cause_of(link: Link) -> FailureCause | None:
    if link.python and not _SPARKS_OWN.match(link.kind):
        known = next((rule.cause for rule in _OF_ANY_LANGUAGE if rule.knows(link)), None)
        return known or FailureCause.USER_CODE
    return next((rule.cause for rule in (*_OF_ANY_LANGUAGE, *_OF_SPARK) if rule.knows(link)), None)


_SPARKS_OWN = re.compile(r"pyspark\.errors\.|py4j\.protocol\.")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


def _without_numbers(message: str) -> str:
    return _NUMBER.sub("#", message)
