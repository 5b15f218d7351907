"""More checkpoints failed in a row than the job tolerates."""

import re

from holdfast.doctor.findings.counted_failures import failures_before
from holdfast.doctor.findings.guides import guide, info_if_told, unless_shown
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support, always, for_variant
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.trust import is_cut_off
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown

CODE = "tolerable-failures-exceeded"
_REASON = re.compile(r"latest checkpoint failed due to (.+?),? view the Checkpoint History")


def _recognise(event: LogEvent) -> Clue | None:
    text = " ".join([event.message, *(link.message for link in event.exceptions)])
    reason = _REASON.search(text)
    mentions = {"reason": reason[1]} if reason else {}
    return Clue(shown(event), _variant(event, reason[1] if reason else ""), mentions)


def _cut_off(event: LogEvent) -> Clue | None:
    """Only this exception is thrown there."""
    return Clue(event.frames[0], _variant(event, "")) if is_cut_off(event) else None


def _variant(event: LogEvent, reason: str) -> str:
    if "expired" in reason:
        return "expired"
    if "finalize" in reason or any("finalizeCheckpoint" in frame for frame in event.frames):
        return "finalize"
    return "reported" if reason else ""


def _counted(case: Case, seen: Sightings) -> Support:
    return Support(30 if failures_before(case, seen) else 0)


_FIX = Fix(
    flink=(
        "execution.checkpointing.tolerable-failed-checkpoints: 3",
        "execution.checkpointing.interval: 240s",
        "execution.checkpointing.min-pause: 60s",
        "execution.checkpointing.timeout: 20m",
    ),
    holdfast=(
        "tolerable_failures=3",
        'on_exceeded="alert"',
        "# after more failures an alarm is raised, and the pipeline keeps running",
    ),
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="more checkpoints failed in a row than the job tolerates, so Flink restarted it",
    rules=(
        Rule(CODE, ("Exceeded checkpoint tolerable failure threshold",), _recognise),
        Rule(CODE, ("CheckpointFailureManager.checkFailureAgainstCounter",), _cut_off, short_only=True),
        guide(
            CODE,
            "unknown",
            "tolerance limit of checkpoint failure",
            "with tolerance set to 0",
            "tolerance setting to",
            "TOLERABLE_FAILURE_NUMBER",
        ),
    ),
    causes=(
        Cause(
            "expired",
            "the checkpoints did not complete within their time-out",
            _FIX,
            for_variant("expired", weight=40),
        ),
        Cause(
            "finalize",
            "every task acknowledged the checkpoint, and it failed when the JobManager wrote its metadata: see the "
            "exception of that write just before",
            _FIX,
            for_variant("finalize", weight=40),
        ),
        Cause("counted", "each counted failure is listed with its root cause", _FIX, _counted),
        Cause(
            "unknown",
            "the number of tolerated failures is 0 by default, so one failed checkpoint is enough; the log does not "
            "show why it failed",
            _FIX,
            always(),
        ),
    ),
    references=("FLINK-29969",),
    counts=failures_before,
    enough=unless_shown,
    grade=info_if_told,
)
