"""Logs of jobs that were broken on purpose."""

from pathlib import Path

LOGS = Path(__file__).parent / "logs"
