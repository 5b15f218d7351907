"""A checkpoint was not triggered, or declined, because tasks were not running."""

import re

from holdfast.doctor.findings.guides import guide, info_if_told, or_told, unless_shown
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support, always, for_variant
from holdfast.doctor.matching.case import CONTEXT, Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole
from holdfast.finding import Severity

CODE = "tasks-not-running"
_STATE = re.compile(r"is not in state RUNNING but (\w+) instead")
_OFTEN = 10
NO_SLOTS = CONTEXT + "no-slots"


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if "heckpoint" not in text:
        return None
    return Clue(shown(event), _variant(text))


def _variant(text: str) -> str:
    state = _STATE.search(text)
    if "have already finished" in text or (state and state[1] == "FINISHED"):
        return "finished"
    if state and state[1] in {"SCHEDULED", "CREATED"}:
        return "no-slots"
    if (state and state[1] in {"DEPLOYING", "INITIALIZING"}) or "not ready" in text or "was not running" in text:
        return "starting"
    return ""


def _starved(event: LogEvent) -> Clue | None:
    """Flink gave up waiting for slots, and says so with an exception."""
    return Clue(shown(event), "no-slots") if event.exceptions else None


def _waits(event: LogEvent) -> Clue | None:
    return Clue(shown(event))


def _without_slots(case: Case, seen: Sightings) -> Support:
    found = [*for_variant("no-slots")(case, seen).evidence, *case.near(seen, NO_SLOTS)]
    return Support(50 if found else 0, found)


def _grade(case: Case, seen: Sightings, severity: Severity) -> Severity:
    """A few at the start of a job are normal. Many, and never a completed one, mean that there are no checkpoints."""
    if info_if_told(case, seen, severity) == "info":
        return "info"
    often = sum(sighting.count for sighting in seen) >= _OFTEN
    if often and not case.of(CONTEXT + "completed"):
        return "critical"
    return severity if often or not case.after(seen, CONTEXT + "completed") else "info"


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="not all tasks were running, so no checkpoints were taken",
    rules=(
        Rule(
            CODE,
            (
                "is not in state RUNNING but",
                "is not being executed at the moment",
                "Not all required tasks are currently running",
                "CheckpointDeclineTaskNotReadyException",
                "declined (tasks not ready)",
                "checkpointing with finished tasks is not enabled",
            ),
            _recognise,
        ),
        Rule(CODE, ("NoResourceAvailableException",), _starved),
        guide(CODE, "no-slots", "job never makes progress"),
        Rule(
            NO_SLOTS,
            (
                "NoResourceAvailableException",
                "acquire the minimum required resources",
                "Slot request bulk is not fulfillable",
                "Could not fulfill resource requirements of job",
            ),
            _waits,
        ),
    ),
    causes=(
        Cause(
            "finished",
            "part of the job has finished (a bounded source), and checkpoints after that are disabled",
            Fix(flink=("execution.checkpointing.checkpoints-after-tasks-finish.enabled: true",)),
            for_variant("finished"),
        ),
        Cause(
            "no-slots",
            "tasks wait for slots: the job's parallelism is higher than the slots that the TaskManagers offer",
            Fix(
                flink=(
                    "taskmanager.numberOfTaskSlots: <at least the job's parallelism divided by the TaskManagers>",
                    "parallelism.default: <at most all slots together>",
                    "jobmanager.scheduler: adaptive",
                ),
                holdfast=("# a barrier is a committed batch: no task can miss a trigger",),
            ),
            or_told(_without_slots, "no-slots"),
        ),
        Cause(
            "starting",
            "tasks were still starting or restoring their state when the checkpoint was triggered",
            Fix(
                flink=(
                    "execution.checkpointing.min-pause: 60s",
                    "state.backend.local-recovery: true",
                    "execution.checkpointing.tolerable-failed-checkpoints: 3",
                ),
                holdfast=("# a barrier is a committed batch: no task can miss a trigger",),
            ),
            for_variant("starting"),
        ),
        Cause(
            "not-running",
            "the job was starting, restarting or ending, when Flink takes no checkpoints",
            Fix(
                flink=("execution.checkpointing.min-pause: 60s",),
                holdfast=("# a barrier is a committed batch: no task can miss a trigger",),
            ),
            always(),
        ),
    ),
    references=("FLINK-2491", "FLIP-147"),
    enough=unless_shown,
    grade=_grade,
)
