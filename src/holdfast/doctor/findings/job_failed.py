"""The job ended with an error that is not about checkpoints, as far as the rules know."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, always
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import root, shown, whole
from holdfast.finding import Severity

CODE = "job-failed"


_OF_A_STREAM = re.compile(r"org\.apache\.(?:flink|spark)\.|ververica|debezium")


def _trace_alone(event: LogEvent) -> Clue | None:
    """Somebody pasted it because the job failed with it; no line of a log says so."""
    last = root(event)
    if event.logger is not None or event.level is not None or last is None:
        return None
    text = "\n".join((whole(event), *event.frames))
    return Clue(shown(event), "alone", {"exception": last.class_name}) if _OF_A_STREAM.search(text) else None


def _grade(case: Case, seen: Sightings, severity: Severity) -> Severity:
    return "warning" if all(sighting.key.variant == "alone" for sighting in seen) else severity


def _task_failed(event: LogEvent) -> Clue | None:
    """Flink may run it again: only where nothing else is known."""
    last = root(event)
    return Clue(shown(event), "alone", {"exception": last.class_name}) if last else None


def _recognise(event: LogEvent) -> Clue | None:
    last = root(event)
    if "Recovery is suppressed by" in whole(event) and "NoRestartBackoffTimeStrategy" not in whole(event):
        return None
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
                "NoRestartBackoffTimeStrategy",
                "Job aborted due to stage failure",
                " times; aborting job",
                "Error initializing SparkContext",
                "External scheduler cannot be instantiated",
                "User class threw exception",
                "ExceptionInChainedOperatorException",
                "Error running job streaming job",
                "with failure cause: ",
                "AM Container for appattempt",
            ),
            _recognise,
        ),
        Rule(CODE, ("switched from RUNNING to FAILED",), _task_failed),
        Rule(CODE, ("Exception", "Error"), _trace_alone, short_only=True),
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
            is_open=True,
        ),
    ),
    grade=_grade,
)
