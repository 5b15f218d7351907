"""`kill -9` of everything. A supervisor starts it again at once."""

from __future__ import annotations

from bench.peers.faults.fault import Usual
from bench.peers.supervised import Supervised


class KilledDriver(Usual):
    name = "killed-driver"
    title = "`kill -9` of the driver"

    def inflict(self, job: Supervised) -> None:
        assert job.life is not None
        job.life.kill()
