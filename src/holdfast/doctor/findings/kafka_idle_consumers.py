"""More Kafka consumers than partitions."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown

CODE = "kafka-idle-consumers"


def _recognise(event: LogEvent) -> Clue | None:
    return Clue(shown(event))


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="Kafka consumers have no partition to read: there are more of them than partitions",
    rules=(Rule(CODE, ("has no partitions to read from", "Assignment(partitions=[])"), _recognise),),
    causes=(
        Cause(
            "parallelism",
            "the source's parallelism is higher than the topic's number of partitions; subtasks without one also "
            "hold back the watermark",
            Fix(
                flink=(
                    "# .setParallelism(<number of partitions>) on the Kafka source, or more partitions",
                    "table.exec.source.idle-timeout: 30s",
                ),
                spark=("# minPartitions does not add consumers; add partitions to the topic",),
            ),
            always(),
        ),
    ),
    references=("Flink docs: Kafka connector, idleness",),
)
