"""For a minute, checkpoints time out before they can be complete."""

from __future__ import annotations

from bench.peers.faults.fault import Usual
from bench.peers.supervised import Supervised
from bench.peers.systems.spark import PlainSpark
from bench.peers.systems.system import System

LASTS_S = 60.0
_TIMEOUT = "10ms"


class ShortTimeout(Usual):
    name = "short-timeout"
    title = "time-out shorter than an upload, for 60 s"

    def not_applicable(self, system: System) -> str | None:
        return "it has no such time-out" if isinstance(system, PlainSpark) else None

    def inflict(self, job: Supervised) -> None:
        job.kill()
        job.start(timeout=_TIMEOUT)
        job.watch(LASTS_S)
        job.kill()
        job.start(timeout=None)
