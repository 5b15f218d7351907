"""The same job is started a second time, on the same store and output, as on another machine, for half a minute."""

from __future__ import annotations

from bench.peers.faults.fault import Usual, changed
from bench.peers.supervised import Supervised

LASTS_S = 60.0


class TwoDeployments(Usual):
    name = "two-deployments"
    title = "two deployments, one directory, one job id"

    def inflict(self, job: Supervised) -> str:
        place = job.setting.place
        with job.system.start(changed(job.setting, place=f"{place}-second", beside=place)) as second:
            ended = job.watch(LASTS_S, lambda: not second.alive())
        return "ended by itself" if ended else "ran beside the first"
