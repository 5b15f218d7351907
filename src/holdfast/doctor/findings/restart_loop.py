"""The job keeps restarting."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support, always, for_context
from holdfast.doctor.findings.tasks_not_running import NO_SLOTS
from holdfast.doctor.matching.case import Case, mentioned
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import root, shown, whole

CODE = "restart-loop"
_LOOP = 3
_RESUMED = re.compile(r"Resuming at batch (\d+)")
_RESTARTING = re.compile(r"switched from state \w+ to RESTARTING|Transition from state \w+ to Restarting")


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if "NoRestartBackoffTimeStrategy" in text:
        return None
    if "Recovery is suppressed by" in text:
        last = root(event)
        return Clue(shown(event), "gave-up", {"exception": last.class_name} if last else {})
    if match := _RESUMED.search(text):
        return Clue(shown(event), "resumed", {"batch": match[1]})
    return Clue(shown(event), "restarted") if _RESTARTING.search(text) else None


def _a_loop(case: Case, seen: Sightings) -> Sightings:
    """One restart is normal. A query that resumes at the same batch each time makes no progress."""
    restarts = [sighting for sighting in seen if sighting.key.variant == "restarted"]
    resumed = [sighting for sighting in seen if sighting.key.variant == "resumed"]
    gave_up = [sighting for sighting in seen if sighting.key.variant == "gave-up"]
    kept = [*gave_up]
    if sum(sighting.count for sighting in restarts) >= _LOOP:
        kept += restarts
    if sum(sighting.count for sighting in resumed) >= _LOOP and len(mentioned(resumed, "batch")) == 1:
        kept += resumed
    return kept


def _ended_by_flink(case: Case, seen: Sightings) -> Support:
    gave_up = [sighting for sighting in seen if sighting.key.variant == "gave-up"]
    return Support(50 if gave_up else 0, gave_up)


_DELAY = (
    "restart-strategy.type: exponential-delay",
    "restart-strategy.exponential-delay.initial-backoff: 1s",
    "restart-strategy.exponential-delay.max-backoff: 1min",
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the job keeps restarting",
    rules=(
        Rule(CODE, ("to RESTARTING", "to Restarting", "Recovery is suppressed by", "Resuming at batch "), _recognise),
    ),
    causes=(
        Cause(
            "no-slots",
            "each start of the job waits for slots that no TaskManager offers, and times out",
            Fix(
                flink=(
                    "taskmanager.numberOfTaskSlots: <at least the job's parallelism divided by the TaskManagers>",
                    "parallelism.default: <at most all slots together>",
                    "jobmanager.scheduler: adaptive",
                ),
            ),
            for_context(NO_SLOTS, weight=60),
        ),
        Cause(
            "gave-up",
            "the job failed more often than its restart strategy allows, and Flink ended it; the innermost exception "
            "shows why",
            Fix(flink=(*_DELAY, "# then fix what the innermost exception names")),
            _ended_by_flink,
        ),
        Cause(
            "keeps-failing",
            "each start of the job fails in the same way; the log shows no known reason",
            Fix(
                flink=(*_DELAY, "# check the exception of the first task that FAILED"),
                spark=("# check the exception with which the query terminated first",),
                holdfast=('restart_delay="5s"', "restart_attempts=10"),
            ),
            always(),
        ),
    ),
    references=("Flink docs: Task Failure Recovery",),
    enough=_a_loop,
)
