"""Two readers took the same partition of Event Hubs from each other."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown

CODE = "readers-collide"


def _recognise(event: LogEvent) -> Clue | None:
    return Clue(shown(event))


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a reader of Event Hubs was disconnected by another one",
    rules=(
        Rule(
            CODE,
            ("ReceiverDisconnectedException", "hence current receiver", "is created hence current"),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "same-group",
            "two readers use one consumer group: another job or notebook, a second query, or a stream that is read "
            "twice in one query",
            Fix(
                spark=(
                    "eventhubs.consumerGroup=<of this query alone>",
                    "# cache or persist the batch in foreachBatch: each action on it reads the stream again",
                    "spark.speculation=false",
                ),
            ),
            always(),
        ),
    ),
)
