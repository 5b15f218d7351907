"""Offsets of a completed checkpoint could not be committed to Kafka."""

import re

from holdfast.doctor.findings.guides import guide, info_if_told, or_told, unless_shown
from holdfast.doctor.findings.knowledge import (
    Cause,
    Fix,
    Knowledge,
    Sightings,
    Support,
    always,
    for_context,
    for_variant,
)
from holdfast.doctor.matching.case import CONTEXT, Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "kafka-commit-failed"
_REBALANCED = re.compile(
    r"already rebalanced|max\.poll\.interval\.ms|RebalanceInProgress|IllegalGeneration|UnknownMemberId"
    r"|not part of an active group|kicked out of the group|FencedInstanceId"
)
_DENIED = re.compile(r"AuthorizationException|AuthenticationException|Not authorized")
_COORDINATOR = re.compile(
    r"CoordinatorNotAvailable|NotCoordinator|coordinator is not available|DisconnectException|TimeoutException"
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    for name, pattern in (("denied", _DENIED), ("rebalanced", _REBALANCED), ("coordinator", _COORDINATOR)):
        if pattern.search(text):
            return Clue(shown(event), name)
    return Clue(shown(event))


def _reconnecting(case: Case, seen: Sightings) -> Support:
    losses = case.near(seen, "kafka-reconnect-loop")
    return Support(55 if losses else 0, losses)


_BACKOFF = (
    "properties.reconnect.backoff.ms: 1000",
    "properties.reconnect.backoff.max.ms: 5000",
)
_AS_MANY = "# parallelism of KafkaSource and KafkaSink: as many as the topic has partitions, not more"
_HOLDFAST = (
    "# offsets are part of the checkpoint; those committed to Kafka are for lag tools only and never read back",
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="warning",
    symptom="offsets could not be committed to Kafka; the job does not need them for recovery, lag tools do",
    rules=(
        Rule(
            CODE,
            (
                "Failed to commit consumer offsets",
                "ailed to commit offsets",
                "Offset commit failed",
                "CommitFailedException",
                "failed async Kafka commit",
                "Async Kafka commit failed",
                "Offset commit cannot be completed",
            ),
            _recognise,
        ),
        guide(CODE, "reconnect-loop", "“KafkaSource” & “KafkaSink”"),
        guide(CODE, "idle-consumers", "parallelism of your KafkaSource", "parallelism of the KafkaSource"),
    ),
    causes=(
        Cause(
            "denied",
            "the consumer is not allowed to commit to its group",
            Fix(
                flink=("# grant READ on the group of properties.group.id",),
                spark=("# grant READ on the group prefix: kafka.group.id or groupIdPrefix",),
                holdfast=_HOLDFAST,
            ),
            for_variant("denied", weight=60),
        ),
        Cause(
            "reconnect-loop",
            "clients lose their brokers and reconnect in a loop, so the group's coordinator is unavailable when "
            "offsets are committed; more consumers than partitions make it worse",
            Fix(
                flink=(*_BACKOFF, _AS_MANY),
                spark=("kafka.reconnect.backoff.ms=1000", "kafka.reconnect.backoff.max.ms=5000"),
                holdfast=_HOLDFAST,
            ),
            or_told(_reconnecting, "reconnect-loop"),
        ),
        Cause(
            "idle-consumers",
            "there are more consumers than partitions; the idle ones are removed from the group, which rebalances it",
            Fix(flink=(_AS_MANY, *_BACKOFF), holdfast=_HOLDFAST),
            or_told(for_context("kafka-idle-consumers", weight=50), "idle-consumers"),
        ),
        Cause(
            "rebalanced",
            "the consumer did not poll for too long, and the group gave its partitions to others",
            Fix(
                flink=("properties.max.poll.interval.ms: 600000", "properties.max.poll.records: 200"),
                spark=("# .option('kafka.max.poll.interval.ms', '600000')",),
                holdfast=_HOLDFAST,
            ),
            for_variant("rebalanced", weight=45),
        ),
        Cause(
            "coordinator",
            "the group's coordinator was not available: a broker restarted, or the connection to it was lost",
            Fix(
                flink=(*_BACKOFF, _AS_MANY),
                spark=("kafka.reconnect.backoff.ms=1000", "kafka.reconnect.backoff.max.ms=5000"),
                holdfast=_HOLDFAST,
            ),
            for_variant("coordinator", weight=40),
        ),
        Cause(
            "network",
            "connections were lost",
            Fix(flink=_BACKOFF, holdfast=_HOLDFAST),
            for_context(CONTEXT + "network"),
        ),
        Cause("unknown", "Kafka refused the commit", Fix(flink=_BACKOFF, holdfast=_HOLDFAST), always()),
    ),
    references=("Flink docs: Kafka connector, consumer offset committing",),
    enough=unless_shown,
    grade=info_if_told,
)
