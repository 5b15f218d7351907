"""`kill -9`, then one byte in the middle of the newest file that the newest checkpoint needs is another one."""

from __future__ import annotations

from pathlib import Path

from bench.peers.faults.fault import Usual
from bench.peers.supervised import Supervised


class FlippedByte(Usual):
    name = "flipped-byte"
    title = "one flipped byte in the newest checkpoint"

    def inflict(self, job: Supervised) -> None:
        job.kill()
        flip(job.system.newest_bytes(job.setting))


def flip(file: Path) -> None:
    with file.open("r+b") as opened:
        middle = file.stat().st_size // 2
        opened.seek(middle)
        byte = opened.read(1)
        opened.seek(middle)
        opened.write(bytes([byte[0] ^ 0xFF]))
