"""Whose words count: what a connector of one's own complains of does, what a program quotes does not."""

import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import observe
from tests.doctor.events import event

REFUSED = "org.apache.kafka.common.errors.CoordinatorNotAvailableException: The coordinator is not available."


@pytest.mark.parametrize(
    ("code", "message", "checkpoint"),
    [
        ("kafka-commit-failed", "Failed to commit offsets for checkpoint 7, will try again", 7),
        ("kafka-commit-failed", f"Failed to commit offsets: {REFUSED}", None),
        ("snapshot-write-failed", "Could not complete snapshot 12 for operator sink: No space left on device", 12),
        ("out-of-memory", "flush failed: java.lang.OutOfMemoryError: Java heap space", None),
    ],
)
def test_a_connector_that_complains_in_one_line_is_heard(code: str, message: str, checkpoint: int | None) -> None:
    assert codes(message, "ERROR", checkpoint) == [code]
    assert codes(message, "WARN", checkpoint) == [code]
    assert codes(message, "INFO", checkpoint) == []


@pytest.mark.parametrize(
    "message",
    [
        f'ticket 8812: "Failed to commit offsets: {REFUSED}"',
        'subject="Checkpoint 12 of job x expired before completing."',
        "the customer asks what Multiple streaming queries are concurrently using means",
    ],
)
def test_what_a_program_quotes_is_not_its_own_trouble(message: str) -> None:
    assert codes(message, "ERROR", 12 if "Checkpoint 12" in message else None) == []


def codes(message: str, level: str, checkpoint: int | None) -> list[str]:
    said = event(message, level=level, logger="com.example.orders.OrdersSink", checkpoint=checkpoint)
    return [finding.code for finding in diagnose(observe([said], RULES))]
