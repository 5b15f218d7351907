"""Two Spark queries over one checkpoint location."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "concurrent-stream-log"


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
    ),
    causes=(
        Cause(
            "same-session",
            "the same query was started twice from sessions of one application",
            Fix(spark=("spark.sql.streaming.stopActiveRunOnRestart=true",), holdfast=_HOLDFAST),
            for_variant("session"),
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
