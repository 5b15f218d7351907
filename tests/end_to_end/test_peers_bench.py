"""The comparison with others, from a run to the page: one system on Spark, quick."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.record import Rounds, read
from tests.patience import PATIENCE


@pytest.mark.long
def test_a_quick_round_is_recorded_and_becomes_a_page(tmp_path: Path) -> None:
    recorded, page = tmp_path / "recorded", tmp_path / "docs" / "comparison.md"
    command = [sys.executable, "-m", "bench.peers", "--quick", "--rounds", "1", "--only", "rounds"]
    command += ["--systems", "our-sink", "--queries", "windowed"]
    command += ["--place", str(tmp_path), "--record", str(recorded), "--page", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    record = read(recorded, Rounds, "our-sink")
    assert record is not None, done.stdout
    round = record.rounds[0]
    assert round.per_second > 0
    assert [each.full for each in round.checkpoints][:2] == [True, False]
    assert round.first_written_s is not None
    assert round.first_visible_s is not None
    assert round.first_written_s <= round.first_visible_s
    text = page.read_text()
    assert f"{round.per_second:,.0f}" in text
    assert (page.parent / "images" / "comparison-windowed-throughput.svg").exists()
