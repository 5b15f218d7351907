"""Two readers took a source from each other: a partition of Event Hubs, or the place of a replica of MySQL."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "readers-collide"


def _recognise(event: LogEvent) -> Clue | None:
    return Clue(shown(event), "replica" if "server_id" in whole(event) else "")


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a reader of the source was disconnected by another one",
    rules=(
        Rule(
            CODE,
            (
                "ReceiverDisconnectedException",
                "hence current receiver",
                "is created hence current",
                "with the same server_uuid/server_id",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "server-id",
            "two readers of the MySQL binlog have the same server id: another job, or another subtask of this one",
            Fix(
                flink=(
                    "# in the table's options: 'server-id' = '5400-5408', a range of its own for each source,",
                    "# as wide as the parallelism of the source",
                ),
            ),
            for_variant("replica", weight=60),
        ),
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
