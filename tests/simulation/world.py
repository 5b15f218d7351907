"""A deterministic world: virtual time, processes that crash and stall, and one source of randomness.

Every task is a greenlet. It runs until it waits; then whichever task is due next runs. Nothing in the world depends on
anything but the seed, so the same seed gives the same history.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from greenlet import GreenletExit, getcurrent, greenlet


class Violation(BaseException):
    """An invariant is broken. No code under test may catch it."""


@dataclass(eq=False)
class Process:
    """A driver: all of its tasks die and stall together."""

    name: str
    alive: bool = True
    stalled_until: float = 0.0
    born: float = 0.0
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(eq=False)
class Task:
    process: Process
    name: str
    body: greenlet
    turn: int = 0
    """Which of its wake-ups is the valid one: a task that was woken early ignores its timer."""


class World:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        self.trace: list[tuple[float, str, str]] = []
        self.outside = Process("world")
        self._due: list[tuple[float, float, Task, int]] = []
        self._current: Task | None = None
        self._hub = getcurrent()
        self._done: list[greenlet] = []

    # --- tasks ---

    def spawn(self, process: Process, name: str, work: Callable[[], None], delay: float = 0.0) -> Task:
        task = Task(process, name, greenlet(work, parent=self._hub))
        self._schedule(task, delay)
        return task

    def sleep(self, seconds: float) -> None:
        """Wait. Others run meanwhile. Does not return in a process that has died."""
        task = self._current
        assert task is not None
        self._schedule(task, seconds)
        self._hub.switch()
        if not task.process.alive:
            raise GreenletExit

    def hesitate(self) -> None:
        """A point where anybody else may come first."""
        self.sleep(self.random.random() * 0.004)

    def suspend(self, timeout: float) -> None:
        """Wait until woken, or until the time is over."""
        self.sleep(timeout)

    def wake(self, task: Task) -> None:
        task.turn += 1
        self._schedule(task, self.random.random() * 0.002)

    @property
    def current(self) -> Task:
        assert self._current is not None
        return self._current

    def crash(self, process: Process) -> None:
        if process.alive:
            self.note("dies", process)
            process.alive = False

    def stall(self, process: Process, seconds: float) -> None:
        self.note(f"stalls for {seconds:.1f} s", process)
        process.stalled_until = max(process.stalled_until, self.now + seconds)

    def run(self, until: Callable[[], bool], limit: float) -> None:
        """Go on until the condition holds; a world that needs longer than `limit` makes no progress."""
        while not until():
            if not self._due or self.now > limit:
                raise Violation(f"no progress: nothing ended before {limit:.0f} s")
            self._step()

    def _step(self) -> None:
        at, _, task, turn = heapq.heappop(self._due)
        process = task.process
        if turn != task.turn or not process.alive or task.body.dead:
            return
        if process.stalled_until > at:
            later = min(process.stalled_until, at + 0.5) + self.random.random() * 0.01
            heapq.heappush(self._due, (later, self.random.random(), task, turn))
            return
        self.now = max(self.now, at)
        self.steps += 1
        self._current = task
        task.body.switch()
        self._current = None

    def _schedule(self, task: Task, delay: float) -> None:
        task.turn += 1
        heapq.heappush(self._due, (self.now + delay, self.random.random(), task, task.turn))

    # --- telling ---

    def note(self, what: str, process: Process | None = None) -> None:
        if process is None:
            process = self._current.process if self._current else self.outside
        self.trace.append((self.now, process.name, what))

    def chance(self, probability: float) -> bool:
        return probability > 0.0 and self.random.random() < probability


class Inbox:
    """What a loop waits at."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: deque[object] = deque()
        self._waiting: Task | None = None

    def put(self, item: object) -> None:
        self._items.append(item)
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._world.wake(waiting)

    def get(self, timeout: float) -> object | None:
        """The next item, None when none came in time."""
        if not self._items and timeout > 0:
            self._waiting = self._world.current
            self._world.suspend(timeout)
            self._waiting = None
        return self._items.popleft() if self._items else None


class SimulatedLanes:
    """The runtime's lanes: each does its work in order, as many at a time as it is wide."""

    def __init__(self, world: World, process: Process, copying: int, failed: Callable[[str], None]) -> None:
        self._world = world
        self._process = process
        self._failed = failed
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        self._idle = {lane: copying if lane == "copy" else 1 for lane in _LANES}
        self._busy: dict[str, float] = {}
        self.closed = False

    def submit(self, lane: str, work: Callable[[], None]) -> None:
        if self.closed:
            return
        self._waiting.setdefault(lane, deque()).append(work)
        if self._idle[lane]:
            self._idle[lane] -= 1
            self._world.spawn(self._process, lane, lambda: self._serve(lane), self._world.random.random() * 0.004)

    def every(self, lane: str, seconds: float, work: Callable[[], None]) -> None:
        def repeat() -> None:
            while not self.closed:
                self._world.sleep(seconds)
                if not self.closed:
                    self._do(lane, work)

        self._world.spawn(self._process, lane, repeat)

    def busy_since(self) -> dict[str, float]:
        return dict(self._busy)

    def _serve(self, lane: str) -> None:
        waiting = self._waiting[lane]
        while waiting:
            self._do(lane, waiting.popleft())
        self._idle[lane] += 1

    def _do(self, lane: str, work: Callable[[], None]) -> None:
        self._busy[lane] = self._world.now
        try:
            work()
        except Exception as error:
            self._failed(f"internal error in lane {lane}: {error!r}")
        self._busy.pop(lane, None)


_LANES = ("journal", "copy", "publish", "query", "look", "requests", "collect", "scrub", "state_file", "plans")
