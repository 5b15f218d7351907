"""Runs of one job in one world, each a process with the real runtime in it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from holdfast.coordination.events import ShardAcknowledged, ShardFailed
from holdfast.errors import (
    Conflict,
    Fenced,
    HoldfastError,
    JobFailed,
)
from holdfast.identifiers import AttemptId, JobName
from holdfast.repository import recent, retention
from holdfast.repository.entries import Process as ProcessIdentity
from holdfast.repository.journal import Journal
from holdfast.repository.names import is_plan
from holdfast.runtime.query.causes import StartFailed
from holdfast.runtime.run.claiming import run_started
from holdfast.runtime.run.components import Threads
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.launching import launch
from holdfast.runtime.run.loop import Runtime
from holdfast.runtime.run.run_end import record_run_end
from holdfast.settings import Settings
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Meter, MeteredStore
from holdfast.storage.retrying import Patience, RetryingStore
from tests.simulation.checkers import START, Checkers
from tests.simulation.outside import ENABLED, Backup, Outside, Outsider
from tests.simulation.sink import SimulatedSink
from tests.simulation.spark import SimulatedQuery, state_problem
from tests.simulation.store import Disk, Faults, SimulatedStore
from tests.simulation.table import OwnTable, Table
from tests.simulation.work import Host, SimulatedWorkplace
from tests.simulation.world import Inbox, Process, SimulatedLanes, World

JOB = JobName("job")


@dataclass
class Network:
    """What happens to the messages of shards on their way to the coordinator; in some worlds nothing."""

    lost: float = 0.0
    repeated: float = 0.0
    late: float = 0.0


@dataclass
class Scene:
    """Everything that outlives a run."""

    world: World
    duration: float
    disk: Disk = field(default_factory=Disk)
    table: Table = field(default_factory=Table)
    hosts: tuple[Host, ...] = (Host("one"), Host("two"))
    runs: list[SimulatedRun] = field(default_factory=list)
    enabled: frozenset[str] = ENABLED
    skew: dict[str, float] = field(default_factory=dict)
    """By how many seconds the clock of a host is wrong."""
    patience: float = 0.0
    """For how many seconds the home is asked again; 0 for a store that does not try again by itself."""
    plans_lost: float = 0.0
    """How likely, at each of the outsider's steps, a plan vanishes from the home; in some worlds with such a writer."""
    staged_lost: float = 0.0
    """How likely, at each of the outsider's steps, what is staged vanishes; in no world unless it is said so."""
    copies_planted: float = 0.0
    """How likely, at each of the outsider's steps, the copies of the newest entries become something else."""
    litter: float = 0.0
    """How likely, at each of the outsider's steps, somebody leaves an object with a name of his own in the home."""
    own: OwnTable | None = None
    """Where a writer of the user's own writes, in worlds that have one."""

    def __post_init__(self) -> None:
        self.hosts = (Host("one"), Host("two"))
        draw = self.world.random
        self.faults = Faults.drawn(self.world, self.duration)
        self.checkers = Checkers(self.world, self.disk, state_problem)
        self.network = Network()
        if draw.random() < 0.3:
            self.network = Network(*(0.05 * draw.random() for _ in range(3)))
        self.dying = draw.choice((0.0, 0.0, 0.02, 0.06))
        self.pace = draw.choice((0.2, 0.5, 1.0))
        self.settings = {
            "interval": draw.choice(("500ms", "2s")),
            "timeout": draw.choice(("1s", "4s", "20s")),
            "min_pause": draw.choice(("0s", "500ms")),
            "max_concurrent": draw.choice((1, 1, 2, 3)),
            "tolerable_failures": draw.choice((0, 2, 5)),
            "on_exceeded": draw.choice(("alert", "alert", "fail")),
            "retained": draw.choice((1, 2, 3)),
            "grace": draw.choice(("0s", "0s", "3s")),
            "restart_delay": "200ms",
            "restart_attempts": 4,
            "heartbeat": "1s",
            "parallelism": draw.choice((1, 2)),
            "scrub": draw.choice(("off", "3s", "10s")),
            "plans": ("prefer", "prefer", "require", "off")[self.world.seed % 4],
            "recovery_target": "3s" if self.world.seed % 3 == 0 else "5m",
            "publish": "batch" if self.world.seed % 4 < 3 and self.world.seed % 5 < 2 else "checkpoint",
        }
        for host in self.hosts:
            host.has_links = draw.random() < 0.7
            host.has_executors = draw.random() < 0.3
        self.copies_every = (2, 5, recent.EVERY)[self.world.seed % 3]
        self.copies_planted = 0.2 if self.world.seed % 7 < 3 else 0.0
        self.litter = 0.15 if self.world.seed % 16 == 5 else 0.0
        self.history_kept = draw.choice((8, 20, 500))
        self.answers_kept = 1 if self.history_kept == 8 else retention.ANSWERS_KEPT
        self.clock_jumps = draw.random() < 0.2
        self.commands = draw.choice((0.0, 0.2, 0.5))
        self.going_back = draw.choice((0.0, 0.2, 0.6))
        self.flips = self.unreadable = self.liveness_is_watched = False
        self.outsider = Outsider(self)
        self.outside = Outside.drawn(self.outsider.random, self.enabled)
        self.outside.put_into(self.faults, self.outsider.random, self.duration)
        if self.outside.any:
            self.patience = self.outsider.random.choice((0.0, 1.0, 4.0))

    def other_life(self, process: Process) -> Backup:
        """A home in which another life of the job has begun and ended."""
        disk = Disk()
        checkers = Checkers(self.world, disk, state_problem)
        store = SimulatedStore(self.world, disk, process, Faults(), checkers)
        clock = SimulatedClock(self)
        ids = iter(range(1_000_000))
        around = Environment(
            clock,
            ProcessIdentity("elsewhere", 1),
            lambda: AttemptId(f"{process.name}-{self.outsider.incidents}-{next(ids)}"),
            self.outsider.random.random,
            lambda step: None,
            1,
        )
        journal = Journal(store, new_attempt=around.new_attempt, now=clock.wall, readers=1)
        journal.load()
        journal.claim(run_started(journal, around, 1.0, "/elsewhere", "pipeline"))
        record_run_end(journal, "it was done")
        return Backup(disk.objects, set(), set(), checkers.memory())

    def settle_outside(self) -> None:
        """What follows from what the world does."""
        self.table.keeps_versions = bool(self.outside.table_restored)
        if self.outside.own_writer:
            self.own = OwnTable()
            if self.world.seed % 5 == 3:
                self.plans_lost = self.plans_lost or 0.1
        self.liveness_is_watched = "skew" in self.enabled
        proves = bool(self.enabled & {"io_errors", "stray", "stray_spell"})
        self.checkers.damage_is_proved = proves and not (self.faults.flipped_read or self.faults.broken)
        if self.outside.skew:
            self.skew = {host.name: self.outsider.random.uniform(-300.0, 300.0) for host in self.hosts}
            self.skew["terminal"] = self.outsider.random.uniform(-300.0, 300.0)

    def emphasise(self, emphasis: Mapping[str, object]) -> None:
        for name, value in emphasis.items():
            if name in self.settings:
                self.settings[name] = value
            elif hasattr(self.hosts[0], name):
                for host in self.hosts:
                    setattr(host, name, value)
            else:
                owners = (owner for owner in (self.faults, self.outside) if hasattr(owner, name))
                setattr(next(owners, self), name, value)


class SimulatedClock:
    def __init__(self, scene: Scene, host: str = "") -> None:
        self._world = scene.world
        self._jumps = scene.clock_jumps
        self._offset = scene.skew.get(host, 0.0)

    def monotonic(self) -> float:
        return self._world.now

    def wall(self) -> datetime:
        if self._jumps and self._world.chance(0.02):
            self._offset += self._world.random.uniform(-20.0, 20.0)
        return START + timedelta(seconds=self._world.now + self._offset)


class SimulatedRun:
    """From launch to the end, as `holdfast.spark.running` drives it."""

    def __init__(
        self,
        scene: Scene,
        host: Host,
        on_conflict: str,
        from_checkpoint: int | None = None,
        told: frozenset[str] = frozenset(),
    ) -> None:
        self._scene = scene
        self._world = scene.world
        self.process = Process(f"run{len(scene.runs) + 1}@{host.name}", born=scene.world.now)
        self._inbox = Inbox(self._world)
        self.over = False
        self.failure: HoldfastError | None = None
        self.lived = 0.0
        self.runtime: Runtime | None = None
        self._attempts = 0
        self._looked_at: object = None
        sink = SimulatedSink(self._world, scene.table, self.process, scene.faults, scene.checkers)
        self.query = SimulatedQuery(self._world, self.process, sink, scene.checkers, scene.dying, scene.pace)
        self.query.host = host
        self.query.own = scene.own
        self.query.requires_plans = scene.settings["plans"] == "require"
        self._workplace = SimulatedWorkplace(self._world, host, scene.checkers, self.process)
        options = scene.settings | dict.fromkeys(told, True)
        if scene.own is not None:
            options |= {"publish": "checkpoint"}
        settings = Settings(**options, on_conflict=on_conflict, from_checkpoint=from_checkpoint)  # type: ignore[arg-type]
        if told:
            scene.checkers.may_take_back.add(self.process)
        if on_conflict == "refuse" and scene.liveness_is_watched:
            scene.checkers.polite.add(self.process)
        self._lanes = SimulatedLanes(self._world, self.process, settings.parallelism, self._defect)
        identity = ProcessIdentity(host.name, len(scene.runs) + 1)
        clock = SimulatedClock(scene, host.name)
        around = Environment(
            clock, identity, self._new_attempt, self._world.random.random, self._step, 1, sleep=self._world.sleep
        )
        store = SimulatedStore(self._world, scene.disk, self.process, scene.faults, scene.checkers)
        meter = Meter(clock.monotonic)
        metered: ObjectStore = MeteredStore(store, meter)
        if scene.patience:
            draw = self._world.random.random
            metered = RetryingStore(metered, Patience(scene.patience, clock.monotonic, self._world.sleep, draw))
        self._place = JobLocation(JOB, "sim://home", metered, host.markers, settings, around, meter)
        self._receivers = tuple(settings.alarms)
        self._clock = clock
        scene.runs.append(self)
        self._world.spawn(self.process, "loop", self._main)

    @property
    def alive(self) -> bool:
        return self.process.alive and not self.over

    def _new_attempt(self) -> AttemptId:
        self._attempts += 1
        return AttemptId(f"{self.process.name}-{self._attempts}")

    def _step(self, name: str) -> None:
        self._world.hesitate()

    def _defect(self, message: str) -> None:
        self._scene.checkers.require(False, f"{self.process.name}: {message}")

    def _main(self) -> None:
        self._world.note("starts")
        try:
            self.runtime = launch(
                self._place,
                self.query,
                Threads(self._lanes, self._send),
                self._finish,
                self._receivers,
                self._workplace.taken_by,
            )
        except HoldfastError as error:
            self.query.stop()
            self._finish(error)
            return
        except StartFailed as error:
            self._finish(JobFailed(f"could not start the query: {error}"))
            return
        except Exception as error:
            self._defect(f"launch failed with {error!r}")
        self._drive()

    def _drive(self) -> None:
        runtime = self.runtime
        assert runtime is not None
        try:
            runtime.begin()
            while not self.over:
                item = self._inbox.get(max(0.0, runtime.next_deadline() - self._clock.monotonic()))
                if item is None:
                    runtime.poll()
                    continue
                runtime.turn(item)  # type: ignore[arg-type]
                self._require_counted()
                if self._clock.monotonic() >= runtime.next_deadline():
                    runtime.poll()
        except Exception as error:
            logging.getLogger("holdfast").exception("loop")
            self._defect(f"internal error in the loop: {error!r}")

    def _require_counted(self) -> None:
        """Failures in a row are those of the history, one per checkpoint, savepoints not among them."""
        history = self.runtime._checkpoints.coordinator.history  # type: ignore[union-attr]
        if history.statistics is self._looked_at:
            return
        self._looked_at = history.statistics
        count = 0
        for record in reversed(history.records):
            if record.completed:
                break
            count += record.failure.reason.counted and record.kind == "checkpoint"  # type: ignore[union-attr]
        counted = history.statistics.consecutive_failures
        # A late completion in the middle of the history resets the count as well.
        self._scene.checkers.require(counted <= count, f"{counted} failures are counted, there were {count}")

    def _send(self, item: object) -> None:
        network = self._scene.network
        if not isinstance(item, ShardAcknowledged | ShardFailed):
            self._inbox.put(item)
            return
        if self._world.chance(network.lost):
            self._world.note(f"LOST {item}")
            return
        copies = 2 if self._world.chance(network.repeated) else 1
        for _ in range(copies):
            if self._world.chance(network.late):
                later = self._world.random.random() * 6.0
                self._world.spawn(self.process, "late message", lambda: self._inbox.put(item), later)
            else:
                self._inbox.put(item)

    def _finish(self, failure: HoldfastError | None) -> None:
        if self.over:
            return
        self._world.note(f"ends: {type(failure).__name__ if failure else 'well'}: {failure.message if failure else ''}")
        self.over, self.failure = True, failure
        self.lived = self._world.now - self.process.born
        self._lanes.closed = True
        exceeded = failure is not None and "checkpoints in a row" in failure.message
        self._scene.checkers.require(
            not exceeded or self._place.settings.on_exceeded == "fail", "checkpoint failures stopped the pipeline"
        )
        checkers = self._scene.checkers
        owner = checkers.owned_by(self.process) and self.process not in checkers.has_seen_a_claim
        alone = owner and not checkers.anybody_astray
        self._scene.checkers.require(not (isinstance(failure, Fenced) and alone), "a run was fenced by nobody")
        strange = self._scene.outsider.incidents or self._scene.table.is_touched or self._scene.own is not None
        strange = strange or any(is_plan(key) for key in self._scene.disk.originals)
        # One that was read wrong twice is refused like a damaged one. The next start reads it right.
        strange = strange or (failure is not None and "do not match its checksum" in failure.message)
        refused = isinstance(failure, Conflict) and not strange
        self._scene.checkers.require(not refused, f"a run is refused, and nothing has happened outside: {failure!r}")
        self._inbox.put(lambda: None)
