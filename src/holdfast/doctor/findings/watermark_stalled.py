"""Event time does not advance although records arrive."""

import re
from datetime import datetime

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support, always, for_context
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.sightings import Sighting
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown

CODE = "watermark-stalled"
_ROWS = re.compile(r'"numInputRows"\s*:\s*(\d+)')
_WATERMARK = re.compile(r'"watermark"\s*:\s*"(\d{4}-\d\d-\d\dT[\d:.]+)Z?"')
_NO_WATERMARK = re.compile(r"maxAllowedWatermark=-9223372036\d+")
_PROGRESS_EVENTS = 5
_NEVER = -(2**63)


def _recognise(event: LogEvent) -> Clue | None:
    if _NO_WATERMARK.search(event.message):
        return Clue(shown(event), measures={"watermark_ms": _NEVER})
    rows, watermark = _ROWS.search(event.message), _WATERMARK.search(event.message)
    if rows is None or watermark is None or int(rows[1]) == 0:
        return None
    moment = datetime.fromisoformat(f"{watermark[1]}+00:00")
    text = f"Streaming query made progress: {rows[1]} rows, watermark {watermark[1]}"
    return Clue(text, measures={"watermark_ms": round(moment.timestamp() * 1000)})


def _standing(case: Case, seen: Sightings) -> Sightings:
    """The newest windows in which it never changed, if they are long enough to be significant."""
    newest_first = sorted(seen, key=lambda sighting: sighting.last, reverse=True)
    standing: list[Sighting] = []
    value: int | None = None
    for sighting in newest_first:
        measure = sighting.measures["watermark_ms"]
        if measure.least != measure.most or value not in (None, measure.most):
            break
        value = measure.most
        standing.append(sighting)
    return standing if sum(s.measures["watermark_ms"].count for s in standing) >= _PROGRESS_EVENTS else []


def _at_zero(case: Case, seen: Sightings) -> Support:
    return Support(40 if all(sighting.measures["watermark_ms"].most <= 0 for sighting in seen) else 0)


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="the watermark does not advance although records arrive, so windows stay open and state grows",
    rules=(Rule(CODE, ('"watermark"', "maxAllowedWatermark=-9223372036"), _recognise),),
    causes=(
        Cause(
            "idle-source",
            "a source or partition without records holds the watermark back",
            Fix(
                flink=(
                    "table.exec.source.idle-timeout: 30s",
                    "# DataStream: WatermarkStrategy.withIdleness(Duration.ofSeconds(30))",
                ),
                spark=("spark.sql.streaming.multipleWatermarkPolicy=max",),
            ),
            for_context("kafka-idle-consumers", weight=50),
        ),
        Cause(
            "no-event-time",
            "no record has a usable event time: the column is null, in seconds instead of milliseconds, or before 1970",
            Fix(
                flink=(
                    "table.exec.source.idle-timeout: 30s",
                    "# check the unit and the nulls of the timestamp that the watermark is based on",
                ),
                spark=("# check the unit and the nulls of the column given to withWatermark",),
            ),
            _at_zero,
        ),
        Cause(
            "stuck",
            "one input is far behind or idle (the watermark is the lowest of all inputs), or the records' event time "
            "does not advance",
            Fix(
                flink=(
                    "table.exec.source.idle-timeout: 30s",
                    "# DataStream: WatermarkStrategy.withIdleness(Duration.ofSeconds(30))",
                ),
                spark=(
                    "spark.sql.streaming.multipleWatermarkPolicy=max",
                    "# max drops records of the slow input as late",
                ),
            ),
            always(),
        ),
    ),
    references=("Flink docs: Generating Watermarks, dealing with idle sources",),
    enough=_standing,
)
