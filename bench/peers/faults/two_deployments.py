"""The same job is started a second time, on the same store and output, as on another machine."""

from __future__ import annotations

from bench.peers.faults.fault import Usual, changed
from bench.peers.supervised import Supervised

_STARTS_S = 300.0
_BESIDE_S = 30.0


class TwoDeployments(Usual):
    name = "two-deployments"
    title = "two deployments, one directory, one job id"

    def inflict(self, job: Supervised) -> str:
        """The second one runs for half a minute, unless it ends before."""
        place = job.setting.place
        beside = changed(job.setting, place=f"{place}-second", beside=place)
        with job.system.start(beside) as second:
            job.watch(_STARTS_S, lambda: not second.alive() or job.system.progress(beside, second) is not None)
            if not second.alive():
                return "ended before it read a row"
            ended = job.watch(_BESIDE_S, lambda: not second.alive())
        return "ended by itself" if ended else "ran beside the first"
