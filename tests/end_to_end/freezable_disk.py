"""A mounted disk that stops answering: ext4 in a file, which the kernel freezes.

Whoever writes to it then waits in the kernel, where no signal reaches them, as with a dead disk or a hung NFS server.
Reading goes on.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_UNTIL_TOLD = 'fsfreeze --freeze "$0" && echo frozen && cat; fsfreeze --unfreeze "$0"'
"""The end of its input tells it, and with it the end of these tests: nobody waits on a frozen disk for ever."""


class FreezableDisk:
    def __init__(self, place: Path) -> None:
        self.place = place

    @contextmanager
    def frozen(self) -> Iterator[None]:
        command = ["sh", "-c", _UNTIL_TOLD, str(self.place)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as freezer:
            assert freezer.stdout is not None
            assert freezer.stdout.readline() == b"frozen\n"
            yield


@contextmanager
def freezable_disk(root: Path) -> Iterator[FreezableDisk]:
    """Skips the test where nothing may be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a disk and freeze it")
    image, place = root / "disk.ext4", root / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, place]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    try:
        yield FreezableDisk(place)
    finally:
        subprocess.run(["umount", place], check=True)
