"""Runs of one job, each a process with the real runtime in it, and the operator who starts, stops and bothers them."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from holdfast.coordination.events import ShardAcknowledged, ShardFailed
from holdfast.errors import (
    Conflict,
    Corrupt,
    Fenced,
    HoldfastError,
    HomeReplaced,
    JobFailed,
    OwnedByAnotherRun,
    StorageError,
)
from holdfast.identifiers import AttemptId, CheckpointId, JobName
from holdfast.repository import retention
from holdfast.repository.damage import mark_repaired
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.entries import Process as ProcessIdentity
from holdfast.repository.journal import Journal
from holdfast.repository.names import is_plan
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.query.causes import StartFailed
from holdfast.runtime.recovery.memory import may_return
from holdfast.runtime.recovery.recovery import Known
from holdfast.runtime.run.claiming import run_started
from holdfast.runtime.run.components import Threads
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.launching import launch
from holdfast.runtime.run.loop import Runtime
from holdfast.runtime.run.run_end import record_run_end
from holdfast.settings import Settings, seconds
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Meter, MeteredStore
from holdfast.storage.retrying import Patience, RetryingStore
from tests.flat_directory import flat_directory
from tests.simulation.checkers import START, Checkers
from tests.simulation.commands import SimulatedCommand
from tests.simulation.copies import DictStore
from tests.simulation.outside import ENABLED, FOR_EVER, Outside, Outsider
from tests.simulation.sink import SimulatedSink
from tests.simulation.spark import SimulatedQuery, end_of, state_problem
from tests.simulation.store import Disk, Faults, SimulatedStore
from tests.simulation.table import OwnTable, Table
from tests.simulation.work import Host, SimulatedWorkplace
from tests.simulation.world import Inbox, Process, SimulatedLanes, Violation, World

JOB = JobName("job")
WAYS_OUT = {"--new-life": "new_life", "--accept-older-home": "accept_older_home", "--accept-sink": "accept_sink"}
"""What a person may type, and the setting that it is."""
_REPEATS = "--repeats accept"
_TYPED = re.compile(rf"(?:(?:{'|'.join(WAYS_OUT)}|--from-checkpoint \d+|{_REPEATS})(?: |\b))+")
"""Flags that are to be typed together."""
_REPAIR, _MARK = "Repair checkpoint", "holdfast verify --all --mark"
_START = "Start without going back"
_ELSEWHERE = re.compile(r"start it on (\w+), where")
_ATTEMPTS = 8
"""How often a person tries a way out."""
_PATIENCE = 5.0
"""For so many seconds a person lets a run alone."""


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

    def other_life(self, process: Process) -> None:
        """Another life of the job begins and ends in the home, whatever it is now."""
        store = SimulatedStore(self.world, self.disk, process, Faults(), self.checkers)
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
        try:
            journal.load()
            journal.claim(run_started(journal, around, 1.0, "/elsewhere", "pipeline"))
        except HoldfastError as error:
            self.world.note(f"no other life begins: {error.message}", process)
        else:
            record_run_end(journal, "it was done")

    def settle_outside(self) -> None:
        """What follows from what the world does."""
        self.table.keeps_versions = bool(self.outside.table_restored)
        if self.outside.own_writer:
            self.own = OwnTable()
            if self.world.seed % 5 == 3:
                self.plans_lost = self.plans_lost or 0.1
        self.liveness_is_watched = "skew" in self.enabled
        proves = bool(self.enabled & {"io_errors", "stray", "stray_spell"})
        self.checkers.damage_is_proved = proves and not self.faults.flipped_read
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
        self._place = JobLocation(JOB, "sim://home", metered, flat_directory("simulated"), settings, around, meter)
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
                lambda marker, new: self._workplace,
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


class Operator:
    """Starts runs, too many of them, and some of them in the past; asks for checkpoints, savepoints and stops; at last
    one run that must go well."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._world = scene.world
        self._savepoints = 0
        self._commands = 0
        self._asked_back: int | None = None
        self.finished = False

    def begin(self) -> None:
        self._world.spawn(self._world.outside, "operator", self._operate)

    def _operate(self) -> None:
        scene, draw = self._scene, self._world.random
        while self._world.now < scene.duration:
            alive = [run for run in scene.runs if run.alive]
            if not alive or (len(alive) < 3 and draw.random() < 0.08):
                self._start()
            elif draw.random() < 0.25:
                self._bother(draw.choice(alive))
            if draw.random() < scene.commands:
                self._commands += 1
                SimulatedCommand(scene, SimulatedClock(scene, "terminal"), self._commands)
            self._world.sleep(draw.random() * 2.0)
        self._conclude()

    def _start(self) -> None:
        """A supervisor starts the job again with the same arguments; a person gives it others."""
        scene, draw = self._scene, self._world.random
        if (refused := self._refused()) is not None and scene.outsider.random.random() < 0.5:
            self._mend(refused)
            return
        known = sorted(scene.checkers.completed)
        if known and draw.random() < scene.going_back:
            self._asked_back = draw.choice(known)
        elif draw.random() < 0.3:
            self._asked_back = None
        conflict = draw.choice(("refuse", "takeover"))
        SimulatedRun(scene, draw.choice(scene.hosts), conflict, from_checkpoint=self._asked_back)

    # --- a person, when the outside world is not what it was ---

    def _refused(self) -> SimulatedRun | None:
        """The newest run, when it says that somebody has to act, and there is something to be done."""
        over = [run for run in self._scene.runs if run.over]
        incident = self._scene.outsider.incident
        if not over or (incident is not None and incident.passes):
            return None
        failure = over[-1].failure
        can_be_mended = isinstance(failure, Corrupt | StorageError) and self._ways(failure)
        return over[-1] if can_be_mended or isinstance(failure, Conflict) else None

    def _ways(self, refusal: HoldfastError) -> list[str]:
        hint, incident = refusal.hint or "", self._scene.outsider.incident
        ways = [" ".join(together.split()) for together in _TYPED.findall(hint)]
        ways += [told for told in (_REPAIR, _MARK, _START) if told in hint]
        ways += [match[0] for match in _ELSEWHERE.finditer(hint)]
        return [*ways, "put back"] if incident is not None and not incident.overtaken() else ways

    def _mend(self, refused: SimulatedRun) -> None:
        """Stop everything; then put things back, or do what the hint says."""
        outsider = self._scene.outsider
        assert refused.failure is not None
        for run in self._scene.runs:
            self._world.crash(run.process)
        incident, ways = outsider.incident, self._ways(refused.failure)
        self._scene.checkers.require(bool(ways), f"no way out is named: {refused.failure!r}")
        way = outsider.random.choice(ways)
        self._world.note(f"a person chooses of {ways}: {way}")
        if way == "put back" and incident is not None:
            incident.put_back()
            outsider.incident = None
        elif way in (_REPAIR, _MARK):
            self._scene.disk.mend()
            self._verify()
        elif _REPEATS in way and self._scene.own is not None:
            self._scene.own.appends = True
            self._scene.settings["repeats"] = "accept"
        back = re.search(r"--from-checkpoint (\d+)", way)
        told = frozenset(setting for flag, setting in WAYS_OUT.items() if flag in way.split())
        there = _ELSEWHERE.fullmatch(way)
        run = self._run_of_last_resort(told, int(back[1]) if back else None, there[1] if there else None)
        if run.runtime is not None and outsider.incident is incident:
            outsider.incident = None

    def _verify(self) -> None:
        """As `holdfast verify --all --repair` does when every byte is right again: marks of damage are cleared."""
        scene = self._scene
        person = Process("person", born=self._world.now)
        store = SimulatedStore(self._world, scene.disk, person, Faults(), scene.checkers)
        ids = iter(range(1_000_000))
        around = Environment(
            SimulatedClock(scene),
            ProcessIdentity("desk", 1),
            lambda: AttemptId(f"{person.name}-{self._world.now}-{next(ids)}"),
            scene.outsider.random.random,
            lambda step: None,
            1,
            sleep=self._world.sleep,
        )
        for _ in range(_ATTEMPTS):
            try:
                with maintenance(JOB, "sim://home", store, "verify", around, on_conflict="takeover") as journal:
                    for id in sorted(journal.state.corrupt.keys() - journal.state.passed_over):
                        mark_repaired(journal, id, "its objects were put back")
            except (OwnedByAnotherRun, Fenced):
                self._world.sleep(1.0)  # another command was quicker, which is no failure
            except HomeReplaced:
                return  # lost to another incident meanwhile; the next start says what to do
            else:
                return

    def _run_of_last_resort(self, told: frozenset[str], back: int | None, there: str | None) -> SimulatedRun:
        host = self._scene.outsider.random.choice(self._scene.hosts)
        if there is not None:
            host = next(host for host in self._scene.hosts if host.name == there)
        run = SimulatedRun(self._scene, host, "takeover", from_checkpoint=back, told=told)
        while run.runtime is None and run.alive:
            self._world.sleep(0.5)
        if told:  # what a person has accepted is asked for again until a checkpoint says so
            ends = self._world.now + _PATIENCE
            while run.alive and not run.runtime.status.statistics.completed and self._world.now < ends:  # type: ignore[union-attr]
                self._world.sleep(0.5)
        return run

    def _bother(self, run: SimulatedRun) -> None:
        draw = self._world.random.random()
        if run.runtime is None:
            return
        if draw < 0.4:
            run.runtime.request("checkpoint", None, lambda answer: None)
        elif draw < 0.75:
            self._savepoints += 1
            run.runtime.request("savepoint", f"s{self._savepoints}", lambda answer: None)
        elif draw < 0.85:
            self._savepoints += 1
            run.runtime.stop(self._world.random.choice((None, f"s{self._savepoints}")), lambda answer: None)
        elif draw < 0.93:
            self._world.stall(run.process, 0.5 + self._world.random.random() * 20.0)
        else:
            self._world.crash(run.process)

    def _conclude(self) -> None:
        """No more faults. Whatever happened, one more run recovers, makes a checkpoint and stops."""
        scene = self._scene
        scene.faults.stop()
        scene.outside.stop()
        scene.network = Network()
        scene.dying = 0.0
        scene.settings |= {"on_exceeded": "alert", "timeout": "20s"}
        scene.clock_jumps = False
        self._world.note("--- faults end ---")
        for host in scene.hosts:
            host.unreadable_until = 0.0
        for key in [key for key, ends in scene.disk.denied.items() if ends < FOR_EVER]:
            del scene.disk.denied[key]
        for run in scene.runs:
            run.query._dying = 0.0
            run.process.stalled_until = min(run.process.stalled_until, self._world.now + 4.0)
        if self._world.chance(0.7):
            self._world.sleep(6.0)
        last = self._mended(self._undisturbed_run())
        self._world.sleep(5.0)
        self._judge(last)
        tidy = not (scene.disk.ever_damaged or scene.flips or scene.checkers.grace is None or scene.outsider.incidents)
        if self._world.chance(0.35) and tidy:
            self._require_tidy()
        self.finished = True

    def _mended(self, last: SimulatedRun) -> SimulatedRun:
        """Whatever happened outside, there is a way out for a person who reads what the product says."""
        for _ in range(_ATTEMPTS):
            incident = self._scene.outsider.incident
            if incident is not None and incident.passes:
                self._world.sleep(1.0)
                continue
            if (refused := self._refused()) is None:
                break
            self._mend(refused)
            if self._refused() in (None, refused):  # else what the person tried has said what to do next
                last = self._undisturbed_run()
        return last

    def _require_tidy(self) -> None:
        """Nothing that an earlier run left behind outlives the next run that has the home for itself."""
        for run in self._scene.runs:
            self._world.crash(run.process)
        entries = sum(key.startswith(("journal/", "plans/")) for key in self._scene.disk.objects)
        next_run = self._last_run()
        epoch = self._scene.checkers.epoch_of(next_run.process)
        # A request to stop may have waited for it; and many entries that a fold stands for go first, and many plans.
        in_time = next_run.lived > 3.0 + 0.03 * max(0, entries - 40)
        if next_run.failure is None and epoch is not None and in_time:
            left = self._scene.checkers.leftovers(epoch)
            self._scene.checkers.require(not left, f"left behind by earlier runs: {left[:3]}")

    def _undisturbed_run(self) -> SimulatedRun:
        last, tries = self._last_run(), 1
        while isinstance(last.failure, OwnedByAnotherRun | Fenced) or _asked_too_early(last.failure):
            if tries == _ATTEMPTS:  # a run that folds its journal faster than another can claim is stopped by a person
                for run in self._scene.runs:
                    self._world.crash(run.process)
            last, tries = self._last_run(), tries + 1  # a run that woke up was quicker, which is no failure
        return last

    def _last_run(self) -> SimulatedRun:
        returning = self._returning()
        last = SimulatedRun(self._scene, self._world.random.choice(self._scene.hosts), "takeover")
        while last.runtime is None and not last.over:
            self._world.sleep(0.5)
        if last.runtime is not None:
            came_back = returning is None or self._scene.checkers.is_in_line(returning)
            self._scene.checkers.require(came_back, f"checkpoint {returning} was passed over and does not come back")
            self._world.sleep(3.0)
            last.runtime.stop(None, lambda answer: None)
        while not last.over:
            self._world.sleep(0.2)
        return last

    def _returning(self) -> CheckpointId | None:
        """The checkpoint that was passed over and must come back now: every byte of it is right, the job has not gone
        on without it, and the sink has what its batches staged. Only where nobody else is at work or was there."""
        scene = self._scene
        others = scene.own is not None or scene.outsider.incidents or scene.table.is_touched or scene.disk.denied
        if others or scene.disk.ever_damaged or any(run.alive for run in scene.runs):
            return None
        home = DictStore("sim://home", dict(scene.disk.objects))
        journal = Journal(home, new_attempt=lambda: AttemptId("nobody"), now=lambda: START, readers=1)
        state = journal.load()
        claimed = replace(state, runs=[*state.runs, *state.runs[-1:]])  # the last one is the run's own
        candidates = may_return(claimed, lambda run: False)
        return candidates[0].id if candidates and self._has_all_of(candidates[0], Known(home, journal)) else None

    def _has_all_of(self, entry: CheckpointCompleted, known: Known) -> bool:
        """Whether the sink shows what it showed, or has what is to be shown again."""
        table, barrier = self._scene.table, entry.barrier_batch_id
        first = 0 if table.published is None else table.published + 1
        if first > barrier:
            return False  # it depends on what it showed when the checkpoint was passed over
        staged = [batch for batch in known.ledger_of(entry.id) if first <= batch.batch_id <= barrier]
        there = all(file.path in table.staged for batch in staged for file in batch.files)
        return there and [batch.batch_id for batch in staged] == list(range(first, barrier + 1))

    def _may_run(self, run: SimulatedRun) -> bool:
        """A run whose home is another one goes on, with an alarm; where it has no sink, nobody can tell it more."""
        checkers = self._scene.checkers
        return checkers.owned_by(run.process) or (self._scene.own is not None and checkers.is_astray(run.process))

    def _judge(self, last: SimulatedRun) -> None:
        scene = self._scene
        checkers = scene.checkers
        checkers.verify_all()
        running = [run for run in scene.runs if run.query.running]
        zombies = [run.process.name for run in running if run.over or not self._may_run(run)]
        checkers.require(not zombies, f"the query of {zombies} runs though its run is over or fenced")
        if isinstance(last.failure, Corrupt) and (scene.disk.ever_damaged or scene.flips or scene.unreadable):
            return
        checkers.require(last.failure is None, f"the last run ended with {last.failure!r}")
        if not checkers.owned_by(last.process):
            return  # another one woke up since and goes on
        directory = last.runtime._life.resumed.directory if last.runtime else None
        barrier = directory.newest_barrier() if directory else None
        if scene.own is not None:
            if directory is not None and barrier is not None:
                missing = set(range(end_of(directory.contents()[f"offsets/{barrier}"]))) - scene.own.rows
                checkers.require(not missing, f"the query's own writer never got rows {sorted(missing)}")
            return
        checkers.require(scene.table.published == barrier, f"published {scene.table.published}, committed {barrier}")
        if directory is not None and barrier is not None:
            checkers.complete(scene.table, end_of(directory.contents()[f"offsets/{barrier}"]))


def _asked_too_early(failure: HoldfastError | None) -> bool:
    """Somebody asked the run to stop with a savepoint before it had a batch to make one of."""
    return failure is not None and "no committed batch to take savepoint" in failure.message


class _Defects(logging.Handler):
    """An unexpected exception that the product logs and survives is a defect all the same."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(logging.DEBUG)
        self._scene = scene

    def emit(self, record: logging.LogRecord) -> None:
        self._scene.world.note(f"log: {record.getMessage()}")
        if record.exc_info:
            formatted = logging.Formatter().formatException(record.exc_info)
            self._scene.checkers.require(False, f"{record.getMessage()}\n{formatted}")


def simulate(
    seed: int,
    duration: float = 24.0,
    emphasis: Mapping[str, object] | None = None,
    outside: frozenset[str] = ENABLED,
) -> World:
    """One world from its beginning to its end. Raises `Violation`, with the world as its second argument.

    `emphasis` sets faults that otherwise the seed decides about, and settings of the job.
    """
    world = World(seed)
    scene = Scene(world, duration, enabled=outside)
    scene.emphasise(emphasis or {})
    scene.settle_outside()
    scene.checkers.shows_batches = scene.settings["publish"] == "batch"
    if not (scene.clock_jumps or scene.skew or scene.faults.flipped_rest):
        scene.checkers.grace = timedelta(seconds=seconds("grace", scene.settings["grace"]))
    scene.flips, scene.unreadable = scene.faults.flipped_read > 0, scene.dying > 0
    log = logging.getLogger("holdfast")
    defects = _Defects(scene)
    level, propagate = log.level, log.propagate
    kept = retention.HISTORY_KEPT, retention.ANSWERS_KEPT
    log.addHandler(defects)
    log.setLevel(logging.INFO)
    log.propagate = False
    retention.HISTORY_KEPT, retention.ANSWERS_KEPT = scene.history_kept, scene.answers_kept
    try:
        operator = Operator(scene)
        operator.begin()
        scene.outsider.begin()
        world.run(lambda: operator.finished, limit=duration + 400.0)
    except Violation as violation:
        raise Violation(str(violation), world) from None
    except Exception as error:
        raise Violation(f"the simulation itself failed: {traceback.format_exc()}", world) from error
    finally:
        retention.HISTORY_KEPT, retention.ANSWERS_KEPT = kept
        log.removeHandler(defects)
        log.setLevel(level)
        log.propagate = propagate
    return world
