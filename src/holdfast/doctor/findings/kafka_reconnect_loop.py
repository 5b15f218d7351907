"""A Kafka client loses its brokers repeatedly, or times out looking for them."""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, always, for_context
from holdfast.doctor.matching.case import Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import has_phrase, shown, whole
from holdfast.finding import Severity

CODE = "kafka-reconnect-loop"
_MANY_IN_FIVE_MINUTES = 10
_GAVE_UP = "gave-up"
_NO_BROKERS = (
    "Timed out waiting for a node",
    "Timed out waiting to send the call",
    "Failed to get metadata for topics",
    "Failed to list subscribed topic",
    "Timeout expired while fetching topic metadata",
    "not present in metadata after",
    "No resolvable bootstrap urls",
    "Failed to update metadata after",
    "expired before the position for partition",
    "expired before the last committed offset for partition",
    "Failed to get records for ",
    "while awaiting InitProducerId",
    "while awaiting AddOffsetsToTxn",
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    thrown = event.exceptions or "errors.TimeoutException: " in text
    if thrown and has_phrase(event, _NO_BROKERS):
        return Clue(shown(event), _GAVE_UP)
    kafka = "org.apache.kafka" in (event.logger or "") or "NetworkClient" in (event.logger or "") or "clientId=" in text
    return Clue(shown(event)) if kafka and ("isconnected" in text or "could not be established" in text) else None


def _loops(case: Case, seen: Sightings) -> Sightings:
    """One lost connection is normal: brokers close idle ones. A client that timed out is not."""
    gave_up = [sighting for sighting in seen if sighting.key.variant == _GAVE_UP]
    return [*gave_up, *(s for s in seen if s.count >= _MANY_IN_FIVE_MINUTES and s.key.variant != _GAVE_UP)]


def _grade(case: Case, seen: Sightings, severity: Severity) -> Severity:
    return "critical" if any(sighting.key.variant == _GAVE_UP for sighting in seen) else severity


_BACKOFF = ("properties.reconnect.backoff.ms: 1000", "properties.reconnect.backoff.max.ms: 5000")

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="Kafka clients lose their brokers and reconnect in a loop",
    rules=(
        Rule(
            CODE,
            (
                " disconnected",
                "being disconnected",
                "could not be established. Broker may not be available",
                *_NO_BROKERS,
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "idle-consumers",
            "there are more consumers than partitions, and idle ones are disconnected",
            Fix(flink=("# parallelism of KafkaSource: as many as the topic has partitions, not more", *_BACKOFF)),
            for_context("kafka-idle-consumers", weight=50),
        ),
        Cause(
            "brokers",
            "brokers are down, restarting, or not reachable under the address that they advertise",
            Fix(
                flink=(*_BACKOFF, "# check advertised.listeners of the brokers from a TaskManager"),
                spark=(
                    "kafka.reconnect.backoff.ms=1000",
                    "kafka.reconnect.backoff.max.ms=5000",
                    "# check advertised.listeners of the brokers from an executor",
                ),
            ),
            always(),
        ),
    ),
    enough=_loops,
    grade=_grade,
)
