"""What an operator deploys and types, besides starting and stopping the pipeline."""

import subprocess
import sys
from pathlib import Path

from holdfast.cli.demo.places import JOB, Places

_RIGHT, _SWAPPED = '"orders", "cents"', '"cents", "orders"'


def swap_sums(pipeline: Path) -> None:
    """The same results in another order. Done twice, the file is as it was."""
    text = pipeline.read_text()
    pipeline.write_text(text.replace(_RIGHT, _SWAPPED) if _RIGHT in text else text.replace(_SWAPPED, _RIGHT))


def rolled_back(places: Places, checkpoint: int) -> str:
    """Its output."""
    command = [sys.executable, "-m", "holdfast.cli", "rollback", f"{JOB}@{checkpoint}", "--home", places.home_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return places.short((done.stdout + done.stderr).strip())
