"""The logs that the benchmark reads are logs: every line belongs to an event, and every job's failures are seen."""

from dataclasses import replace
from pathlib import Path

from bench import doctor_scan, generated_logs
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.examination import added_up
from holdfast.doctor.matching.scanning import scan
from holdfast.doctor.reading.inputs import pieces_of, resolve


def test_every_job_is_seen(tmp_path: Path) -> None:
    generated_logs.write(tmp_path / "logs", megabytes=3, jobs=3)
    found = added_up(scan(piece, RULES) for piece in pieces_of(resolve([str(tmp_path)]).files))
    assert (found.files, found.unparsed) == (3, 0)
    assert 0.95 * 3 * 2**20 < found.bytes <= 3 * 2**20
    failures = {sighting.key.job for sighting in found.sightings if sighting.key.code == "snapshot-write-failed"}
    assert failures == {f"{number:032x}" for number in range(3)}


def test_ratios_say_nothing_on_a_busy_machine() -> None:
    scans = doctor_scan.Scans(1, 1, 1, 1, (2.0,), (6.0,), (12.0,), kept=1, worker_bytes=1, driver_bytes=1, others=0.0)
    assert [(ratio.value, ratio.met) for ratio in doctor_scan.ratios(scans)] == [(3.0, True), (2.0, True)]
    busy = replace(scans, others=1.0)
    assert [ratio.met for ratio in doctor_scan.ratios(busy)] == [None, None]
