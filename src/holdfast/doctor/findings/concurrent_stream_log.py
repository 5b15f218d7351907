"""Two Spark queries over one checkpoint location."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "concurrent-stream-log"


_OF_A_CHECKPOINT = re.compile(r"[Cc]heckpoint|chk-\d|/state/|[Ss]napshot|_metadata")


def _lease_is_taken(event: LogEvent) -> Clue | None:
    """Of an output file: another attempt, or another job, writes it, too."""
    text = "\n".join((whole(event), *event.frames))
    if _OF_A_CHECKPOINT.search(text) or not (event.exceptions or "Exception" in text):
        return None
    return Clue(shown(event), "lease")


def _recognise(event: LogEvent) -> Clue | None:
    return Clue(shown(event), "session" if "CONCURRENT_QUERY" in whole(event) else "")


_HOLDFAST = (
    'on_conflict="refuse"',
    "# the second deployment is refused at its start; the error names host, pid and application of the first",
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="two streaming queries wrote the same batch into one checkpoint location",
    rules=(
        Rule(
            CODE,
            (
                "CONCURRENT_STREAM_LOG_UPDATE",
                "Multiple streaming jobs detected for",
                "Concurrent update to the log",
                "Concurrent update to the commit log",
                "Multiple HDFSMetadataLog are using",
                "Multiple streaming queries are concurrently using",
                "CONCURRENT_QUERY",
            ),
            _recognise,
        ),
        Rule(CODE, ("LeaseExpiredException", "AlreadyBeingCreatedException"), _lease_is_taken),
    ),
    causes=(
        Cause(
            "same-session",
            "the same query was started twice from sessions of one application",
            Fix(spark=("spark.sql.streaming.stopActiveRunOnRestart=true",), holdfast=_HOLDFAST),
            for_variant("session"),
        ),
        Cause(
            "lease",
            "two writers had the same file of HDFS open: a speculative task, a task that was run again while the first "
            "attempt still wrote, or a second job over the same output",
            Fix(
                spark=("spark.speculation=false", "# stop the other job; give each job an output directory of its own"),
                holdfast=_HOLDFAST,
            ),
            for_variant("lease", weight=45),
        ),
        Cause(
            "two-deployments",
            "two deployments run the same query over one checkpointLocation; the second to commit a batch fails, and "
            "until then both write output and state",
            Fix(
                spark=(
                    "# stop one of the two; give each query its own checkpointLocation",
                    "spark.kubernetes.driver.podNamePrefix=<fixed, so that a second driver cannot start>",
                    "# on YARN: spark.yarn.maxAppAttempts=1 where an outer supervisor restarts the job",
                ),
                holdfast=_HOLDFAST,
            ),
            always(),
        ),
    ),
    references=("SPARK-39170",),
)
