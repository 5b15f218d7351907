"""`make kafka-example`: a real broker, a job that falls behind, the lag on the screen, and the table as it must be."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_lag_is_shown_and_the_table_is_exact() -> None:
    script = [sys.executable, "scripts/kafka_example.py", "--seconds", "12"]
    shown = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert re.search(r"sent +[\d,]+  in the table +[\d,]+  lag +[\d,]+ records", shown.stdout), shown.stdout
    assert re.search(r"sent [\d,]+, in the table [\d,]+, wrong 0\n", shown.stdout), shown.stdout
