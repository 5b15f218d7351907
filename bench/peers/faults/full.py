"""The store is full for a minute."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bench.peers.faults.fault import Usual
from bench.peers.supervised import Supervised

LASTS_S = 60.0
_CHUNK = bytes(1 << 16)


class Full(Usual):
    name = "full"
    title = "store full for 60 s"

    def inflict(self, job: Supervised) -> None:
        filler = job.setting.store.joinpath(".filler")
        fills_again = LASTS_S / 60
        try:
            for _ in range(60):
                _fill(filler)  # what the system deletes meanwhile is no room
                job.watch(fills_again)
        finally:
            filler.unlink()


def _fill(file: Path) -> None:
    with suppress(OSError), file.open("ab", buffering=0) as filled:
        while filled.write(_CHUNK) == len(_CHUNK):
            pass
