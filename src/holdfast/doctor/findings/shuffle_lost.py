"""The output of a stage was gone when the next stage asked for it."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, always, for_context
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole
from holdfast.finding import Severity

CODE = "shuffle-lost"
_ENDED = re.compile(r"maximum allowable number of times|aborting job|Job aborted")


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    return Clue(shown(event), "ended" if _ENDED.search(text) else "")


def _grade(case: Case, seen: Sightings, severity: Severity) -> Severity:
    """Spark runs the stage again; only where it gave up, the job ended."""
    return "critical" if any(sighting.key.variant == "ended" for sighting in seen) else severity


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="shuffle files of a lost executor could not be fetched, and stages run again",
    rules=(
        Rule(
            CODE,
            (
                "FetchFailedException",
                "FetchFailed(",
                "Missing an output location for shuffle",
                "Failed to get block(s) from ",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "memory",
            "executors that held shuffle files ran out of memory",
            Fix(spark=("spark.executor.memory=<half as much again>", "spark.executor.memoryOverhead=2g")),
            for_context("out-of-memory", weight=60),
        ),
        Cause(
            "executor",
            "the executor that had written them is gone, most often killed for its memory or taken by the platform; "
            "the line where it was lost, before this one, has its exit code",
            Fix(
                spark=(
                    "spark.shuffle.service.enabled=true",
                    "spark.decommission.enabled=true",
                    "spark.storage.decommission.shuffleBlocks.enabled=true",
                    "spark.executor.memoryOverhead=2g",
                    "# a query with little data: fewer spark.sql.shuffle.partitions before its first start",
                ),
                holdfast=("# the query is restarted: restart_attempts, restart_delay",),
            ),
            always(20),
        ),
    ),
    grade=_grade,
    heals=True,
)
