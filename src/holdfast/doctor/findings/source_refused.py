"""The database that a connector reads changes from is not set up as the connector needs it."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown

CODE = "source-refused"


def _recognise(event: LogEvent) -> Clue | None:
    return Clue(shown(event)) if event.exceptions else None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the database's log does not have what the connector needs",
    rules=(
        Rule(
            CODE,
            (
                "binlog probably contains events generated with statement",
                "is not configured to use a ROW binlog_format",
                "binlog_row_image is not FULL",
                "The MySQL server does not appear to be using a row-level binlog",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "binlog-format",
            "statements are in MySQL's binlog instead of rows: its format is not ROW, or a session changed it",
            Fix(
                flink=(
                    "# in my.cnf: binlog_format=ROW and binlog_row_image=FULL; then start with a snapshot",
                    "debezium.event.deserialization.failure.handling.mode: warn",
                    "# the last line skips such events: the tables of backup and checksum tools can be left out",
                )
            ),
            always(),
        ),
    ),
)
