"""Files or versions that a query still had to read were deleted or changed."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "input-changed"
_CHANGED = re.compile(r"IGNORE_CHANGES|IGNORE_DELETE|Detected (?:a data update|deleted data)")
_LOG = re.compile(
    r"_delta_log/|TRAILING_COMMIT_MISSING|MISSING_FILES_UNEXPECTED_VERSION|DELTA_(?:LOG_FILE_NOT_FOUND|VERSIONS_NOT_CONTIGUOUS)"
)
_DATA_FILE = re.compile(
    r"underlying files have been updated|[Pp]ath does not exist: |PATH_NOT_FOUND|FAILED_READ_FILE"
    r"|(?:[Nn]o such file or directory|[Ff]ile does not exist|FileNotFoundException).{0,400}"
    r"\.(?:parquet|orc|avro|json|csv|gz|snappy)\b",
    re.DOTALL,
)
_LOCAL_PATH = re.compile(r"FileNotFoundException: (?:File )?file:/{1,3}\S+ (?:does not|doesn't) exist")
_OBJECT = re.compile(
    r"FileNotFoundException: (?:No such file or directory:? |File does not exist:? |File )'?(?:hdfs|s3\w?|gs|abfss?|wasbs?|oss)://"
)
_OF_A_CHECKPOINT = re.compile(
    r"Could not restore|chk-\d|/shared/|/taskowned|savepoint|StateBackend|\.sst\b"
    r"|/state/\d|/(?:offsets|commits|sources|_spark_metadata)/|CANNOT_LOAD_STATE"
    r"|\.(?:delta|changelog)\b"
)

_VARIANTS = (("changed", _CHANGED), ("log", _LOG), ("local", _LOCAL_PATH), ("file", _DATA_FILE), ("file", _OBJECT))


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if _OF_A_CHECKPOINT.search(text):
        return None
    for name, pattern in _VARIANTS:
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    return None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="what the query still had to read was deleted or changed",
    rules=(
        Rule(
            CODE,
            (
                "underlying files have been updated",
                "ath does not exist: ",
                "PATH_NOT_FOUND",
                "FAILED_READ_FILE",
                "FileNotFoundException",
                "IGNORE_CHANGES",
                "IGNORE_DELETE",
                "Detected a data update",
                "Detected deleted data",
                "TRAILING_COMMIT_MISSING",
                "MISSING_FILES_UNEXPECTED_VERSION",
                "DELTA_LOG_FILE_NOT_FOUND",
                "DELTA_VERSIONS_NOT_CONTIGUOUS",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "changed",
            "rows of the table that the query reads were updated or deleted; a stream reads appends only",
            Fix(
                spark=(
                    ".option('skipChangeCommits', 'true')",
                    "# or read the change feed: .option('readChangeFeed', 'true'), and apply updates and deletes",
                    "# to have the change in the result: start with a new checkpointLocation",
                ),
            ),
            for_variant("changed", weight=65),
        ),
        Cause(
            "local",
            "the path is on the disk of one host, and the task that looks for it runs on another one",
            Fix(
                spark=(
                    "# a path that driver and all executors reach: hdfs://, s3a://, abfss:// or a shared mount",
                    "spark.master=local[*]",
                    "# the last line only where everything fits on one host",
                ),
            ),
            for_variant("local", weight=60),
        ),
        Cause(
            "log",
            "versions of the Delta log that the query still had to read were removed by the table's log retention",
            Fix(
                spark=(
                    "ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration'='interval 30 days')",
                    "# restart the application: it has read the log before it was cleaned",
                    "# versions that are gone cannot be read: failOnDataLoss=false, or a new checkpointLocation",
                ),
            ),
            for_variant("log", weight=62),
        ),
        Cause(
            "file",
            "a file that the query still had to read is gone: VACUUM, a cleaner, a compaction or a lifecycle rule "
            "removed it, or the table was written again",
            Fix(
                flink=("# keep what a reader still needs: longer retention of snapshots, cleaner.commits.retained",),
                spark=(
                    "# keep what a reader still needs: VACUUM RETAIN <hours>",
                    "hoodie.cleaner.commits.retained=<longer than the longest query>",
                    "REFRESH TABLE t",
                    "spark.sql.files.ignoreMissingFiles=true",
                    "# the last line leaves rows out silently",
                ),
                holdfast=("# plans name the files of each batch; a file that is gone is named before the batch runs",),
            ),
            always(45),
        ),
    ),
    references=("Delta docs: Table streaming reads and writes",),
)
