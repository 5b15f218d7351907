"""The job ended with an error that is not about checkpoints, as far as the rules know."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import root, shown, whole

CODE = "job-failed"


def _recognise(event: LogEvent) -> Clue | None:
    last = root(event)
    if "InterruptedException" in whole(event) and "terminated with error" in event.message:
        return None
    return Clue(shown(event), mentions={"exception": last.class_name} if last else {})


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the job ended with an error",
    rules=(
        Rule(
            CODE,
            (
                "terminated with error",
                "terminated with exception",
                "switched from state FAILING to FAILED",
                "switched from state RUNNING to FAILED",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "program",
            "the innermost exception shows why; no setting is known that helps",
            Fix(
                flink=("restart-strategy.type: exponential-delay",),
                spark=("# plain Spark does not restart a failed query",),
                holdfast=("restart_attempts=10", "# the query is restarted where it stopped"),
            ),
            always(),
        ),
    ),
)
