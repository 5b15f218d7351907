"""Batches of Spark take longer than their trigger interval."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, always
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown

CODE = "batch-falls-behind"
_SPENT = re.compile(r"trigger interval is (\d+) milliseconds, but spent (\d+) milliseconds")
_OFTEN = 5


def _recognise(event: LogEvent) -> Clue | None:
    match = _SPENT.search(event.message)
    if match is None:
        return None
    return Clue(shown(event), measures={"interval_ms": int(match[1]), "spent_ms": int(match[2])})


def _often(case: Case, seen: Sightings) -> Sightings:
    """The first batch, and one after a pause, are always long."""
    return seen if sum(sighting.count for sighting in seen) >= _OFTEN else []


def _fix(case: Case, seen: Sightings) -> Fix:
    spent = case.measure(CODE, "spent_ms")
    seconds = max(1, round((spent.most if spent else 0) * 1.2 / 1000))
    return Fix(
        spark=(
            f'# .trigger(processingTime="{seconds} seconds")',
            "maxOffsetsPerTrigger=<what one interval can process>",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",
        ),
        holdfast=(f'trigger="{seconds}s"',),
    )


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="batches take longer than their trigger interval",
    rules=(Rule(CODE, ("Current batch is falling behind",), _recognise),),
    causes=(Cause("slow", "a batch takes longer than the trigger interval", _fix, always()),),
    enough=_often,
)
