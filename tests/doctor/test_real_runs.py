"""Logs that real jobs wrote when they were broken on purpose, trimmed. `make doctor-real` writes and tests new ones."""

import os
from pathlib import Path

import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.examination import added_up
from holdfast.doctor.matching.scanning import scan
from holdfast.doctor.reading.inputs import pieces_of, resolve

PLACE = Path(os.environ.get("HOLDFAST_DOCTOR_LOGS") or Path(__file__).parent / "real" / "logs")
LOGS = sorted(PLACE.glob("*.log"))

FIRST = {
    ("flink", "tiny-timeout"): "checkpoint-expired",
    ("flink", "full-disk"): "snapshot-write-failed",
    ("flink", "two-deployments"): "metadata-exists",
    ("flink", "corrupt-state"): "state-unreadable",
    ("flink", "killed-worker"): "executor-lost",
    ("spark", "tiny-timeout"): "executor-lost",
    ("spark", "full-disk"): "snapshot-write-failed",
    ("spark", "two-deployments"): "concurrent-stream-log",
    ("spark", "corrupt-state"): "state-unreadable",
    ("spark", "killed-worker"): "executor-lost",
}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_the_first_finding_names_what_was_broken(log: Path) -> None:
    engine, _version, scenario = log.stem.split("-", 2)
    total = added_up(scan(piece, RULES) for piece in pieces_of(resolve([str(log)]).files))
    first, *others = diagnose(total.sightings)
    assert (first.code, first.severity) == (FIRST[engine, scenario], "critical")
    assert [finding.code for finding in others if finding.severity == "critical"] == []
    assert total.unparsed <= 5


def test_every_scenario_has_a_log() -> None:
    kept = {(log.stem.split("-", 2)[0], log.stem.split("-", 2)[2]) for log in LOGS}
    assert kept == set(FIRST)
