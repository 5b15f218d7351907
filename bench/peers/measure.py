"""One round of one system: steady throughput, processor time, checkpoints, and the first output after a kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bench import processor
from bench.peers.pipeline import Query, Shape
from bench.peers.record import Round, load
from bench.peers.setting import Setting
from bench.peers.systems.system import Processes, Progress, System

_LOOK_S = 0.1
_PATIENCE_S = 900.0
_SEEN = TypeVar("_SEEN")


@dataclass(frozen=True)
class Sizes:
    shape: Shape
    seconds: float
    """At least so long is a round measured."""
    interval: str

    def warm_rows(self, query: Query) -> int:
        """Until the state is as large as it becomes."""
        shape = self.shape
        return shape.keys if query == "keyed" else (shape.delay + 5) * shape.per_second


@dataclass(frozen=True)
class _Moment:
    progress: Progress
    used: processor.Moment


def measure(system: System, query: Query, sizes: Sizes, place: Path, number: int) -> Round:
    place.mkdir(parents=True)
    warm = sizes.warm_rows(query)
    setting = Setting(str(place), query, sizes.shape, sizes.interval, full_after=warm)
    os.sync()
    with system.start(setting) as life:
        begun = _moment(system, setting, life, lambda progress: progress.rows >= warm * 3 // 2)
        ends = begun.progress.at + sizes.seconds
        ended = _moment(system, setting, life, lambda progress: progress.at >= ends)
        system.full_checkpoint(setting, life)
        checkpoints = tuple(system.checkpoints(setting, life))
    written, visible, others = _after_a_kill(system, setting)
    return Round(
        number=number,
        query=query,
        shape=sizes.shape,
        interval=sizes.interval,
        seconds=ended.progress.at - begun.progress.at,
        rows=ended.progress.rows - begun.progress.rows,
        processor_s=processor.own_between(begun.used, ended.used),
        checkpoints=checkpoints,
        first_written_s=written,
        first_visible_s=visible,
        others=max(others, processor.others_between(begun.used, ended.used)),
        load=load(),
    )


def _moment(system: System, setting: Setting, life: Processes, wanted: Callable[[Progress], bool]) -> _Moment:
    """The processor's counters as near as can be to a progress that was told."""

    def look() -> _Moment | None:
        progress = system.progress(setting, life)
        if progress is None or not wanted(progress):
            return None
        return _Moment(progress, processor.now(life.main.pid))

    return _awaited(look, life, setting, "the progress")


def _after_a_kill(system: System, setting: Setting) -> tuple[float | None, float | None, float]:
    """The life before was killed with the block it was in."""
    if setting.query == "keyed":
        return None, None, 0.0  # its output goes nowhere
    before, seen = system.written(setting), set(system.visible(setting))
    again = Setting(setting.place, setting.query, setting.shape, setting.interval)
    os.sync()
    with system.start(again) as life:
        counted = processor.now(life.main.pid)
        _awaited(lambda: system.written(setting) - before, life, setting, "output")
        written = time.time() - life.started
        _awaited(lambda: set(system.visible(setting)) - seen, life, setting, "visible output")
        visible = time.time() - life.started
        others = processor.others_between(counted, processor.now(life.main.pid))
    return written, visible, others


def _awaited(look: Callable[[], _SEEN | None], life: Processes, setting: Setting, what: str) -> _SEEN:
    ends = time.monotonic() + _PATIENCE_S
    while not (seen := look()):
        if not life.alive() or time.monotonic() > ends:
            tail = setting.log.read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError("\n".join([f"{what} did not come:", *tail]))
        time.sleep(_LOOK_S)
    return seen
