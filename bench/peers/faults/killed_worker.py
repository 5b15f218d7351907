"""`kill -9` of the process that does the work. Another one is started at once."""

from __future__ import annotations

import os
import signal

from bench.peers.faults.fault import Usual, changed
from bench.peers.setting import Setting
from bench.peers.supervised import Supervised


class KilledWorker(Usual):
    name = "killed-worker"
    title = "`kill -9` of the worker"

    def prepared(self, setting: Setting) -> Setting:
        return changed(setting, worker=True)

    def inflict(self, job: Supervised) -> None:
        assert job.life is not None
        os.kill(job.system.worker(job.life), signal.SIGKILL)
        job.system.replace_worker(job.setting, job.life)
