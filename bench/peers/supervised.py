"""A job under a supervisor that starts it again when it ended, watched for output that a reader sees."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import msgspec

from bench.peers.setting import Setting
from bench.peers.systems.system import Processes, System

_LOOK_S = 0.25
_MOST_RESTARTS = 6


class Supervised:
    def __init__(self, system: System, setting: Setting) -> None:
        self.system = system
        self.setting = setting
        self.life: Processes | None = None
        self.process_restarts = 0
        self.own_restarts = 0
        self.outputs: list[float] = []
        """When there was new visible output."""
        self._seen: set[str] = set()

    def start(self, **changed: object) -> None:
        self.setting = msgspec.structs.replace(self.setting, **changed)
        self.life = self.system.start(self.setting)

    def start_by_hand(self) -> bool:
        self.life = self.system.start_by_hand(self.setting)
        return self.life is not None

    def kill(self) -> None:
        assert self.life is not None
        self.own_restarts = max(self.own_restarts, self.system.restarts(self.setting))
        self.life.kill()

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """For so long, or until it is so; whether it was. Nothing more comes of a job that is not started again."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends and not self._given_up():
            self._look()
            if until():
                return True
            time.sleep(_LOOK_S)
        return False

    def until_output(self, times: int, seconds: float) -> bool:
        """So many times from now on."""
        before = len(self.outputs)
        return self.watch(seconds, lambda: len(self.outputs) >= before + times)

    def _look(self) -> None:
        visible = {str(path) for path in self.system.visible(self.setting)}
        if visible - self._seen:
            self.outputs.append(time.monotonic())
        self._seen |= visible
        if self.life is not None and not self.life.alive() and self.process_restarts < _MOST_RESTARTS:
            self.own_restarts = max(self.own_restarts, self.system.restarts(self.setting))
            self.life.kill()
            self.process_restarts += 1
            self.life = self.system.start(self.setting)

    def _given_up(self) -> bool:
        return self.process_restarts >= _MOST_RESTARTS and self.life is not None and not self.life.alive()

    def silence(self, begun: float, ended: float) -> float:
        """The longest time without output between two moments."""
        moments = [begun, *(at for at in self.outputs if begun < at < ended), ended]
        return max(later - earlier for earlier, later in pairwise(moments))
