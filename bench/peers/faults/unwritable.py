"""The store cannot be written for a minute; what is there can be read."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from bench.peers.faults.fault import Usual
from bench.peers.supervised import Supervised

LASTS_S = 60.0


class Unwritable(Usual):
    name = "unwritable"
    title = "store unwritable for 60 s"

    def inflict(self, job: Supervised) -> None:
        _remount(job.setting.store, "ro")
        try:
            job.watch(LASTS_S)
        finally:
            _remount(job.setting.store, "rw")


def _remount(folder: Path, mode: str) -> None:
    """Not while a file is open to be written: there is a moment between two."""
    ends = time.monotonic() + 30
    while subprocess.run(["mount", "-o", f"remount,{mode}", str(folder)], capture_output=True, check=False).returncode:
        assert time.monotonic() < ends, f"{folder} cannot be made {mode}"
