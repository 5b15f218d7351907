"""What the driver sends to all executors did not arrive."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "broadcast-failed"
_LATE = "Could not execute broadcast in"


def _recognise(event: LogEvent) -> Clue | None:
    return Clue(shown(event), "late" if _LATE in whole(event) else "gone")


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a broadcast did not reach the executors",
    rules=(Rule(CODE, (_LATE, "Failed to get broadcast_"), _recognise),),
    causes=(
        Cause(
            "late",
            "the small side of a join was not collected and sent within the time-out: it is not small, the cluster is "
            "busy, or the driver is short of memory",
            Fix(
                spark=(
                    "spark.sql.autoBroadcastJoinThreshold=-1",
                    "spark.sql.broadcastTimeout=1200",
                    "# the first line joins without a broadcast; the second only waits longer",
                ),
            ),
            for_variant("late", weight=55),
        ),
        Cause(
            "gone",
            "the driver no longer has it: its SparkContext was stopped or there are two in one process, it was "
            "destroyed while tasks still used it, or a query restored from a DStream checkpoint refers to that of the "
            "run before",
            Fix(
                spark=(
                    "# one SparkContext per process; await the query before stop()",
                    "# create broadcasts lazily (getOrCreate) where a DStream is restored from a checkpoint",
                ),
            ),
            always(40),
        ),
    ),
    references=("Spark docs: Streaming, accumulators, broadcast variables, and checkpoints",),
)
