"""The operator who starts, stops and bothers the runs of a simulated job, and one whole history from a seed."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from holdfast.errors import (
    Conflict,
    Corrupt,
    DamagedJournal,
    Fenced,
    HoldfastError,
    HomeReplaced,
    OwnedByAnotherRun,
    StorageError,
    StorageUnreachable,
)
from holdfast.identifiers import AttemptId, CheckpointId
from holdfast.repository import recent, retention
from holdfast.repository.damage import mark_repaired
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.entries import Process as ProcessIdentity
from holdfast.repository.journal import Journal
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.recovery.memory import may_return
from holdfast.runtime.recovery.recovery import Known
from holdfast.runtime.run.environment import Environment
from holdfast.settings import seconds
from tests.simulation.checkers import START
from tests.simulation.commands import SimulatedCommand
from tests.simulation.copies import DictStore
from tests.simulation.full_home import not_freed
from tests.simulation.outside import ENABLED, FOR_EVER
from tests.simulation.runs import JOB, Network, Scene, SimulatedClock, SimulatedRun
from tests.simulation.spark import end_of
from tests.simulation.store import Faults, SimulatedStore
from tests.simulation.world import Process, Violation, World

WAYS_OUT = {"--new-life": "new_life", "--accept-older-home": "accept_older_home", "--accept-sink": "accept_sink"}
"""What a person may type, and the setting that it is."""
_REPEATS = "--repeats accept"
_TYPED = re.compile(rf"(?:(?:{'|'.join(WAYS_OUT)}|--from-checkpoint \d+|{_REPEATS})(?: |\b))+")
"""Flags that are to be typed together."""
_REPAIR, _MARK = "Repair checkpoint", "holdfast verify --all --mark"
_START = "Start without going back"
_ANEW = "begin anew under another job name"
_ELSEWHERE = re.compile(r"start it on (\w+), where")
_ATTEMPTS = 8
"""How often a person tries a way out."""
_PATIENCE = 5.0
"""For so many seconds a person lets a run alone."""


class _BegunAnew(Exception):
    """The job was given up, as the product told the person who has a writer of his own."""


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
        self._world.spawn(self._world.outside, "operator", self._work)

    def _work(self) -> None:
        try:
            self._operate()
        except _BegunAnew:
            self._world.note("a person begins anew under another job name")
            self.finished = True

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
        if not ways and self._scene.own is not None and _ANEW in (refused.failure.hint or ""):
            raise _BegunAnew  # its plans are lost with the disk, and there is no checkpoint to go back to
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
            except (OwnedByAnotherRun, Fenced, StorageUnreachable):
                self._world.sleep(1.0)  # another command was quicker, or the disk is away for seconds: no failure
            except (HomeReplaced, DamagedJournal):
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
        if tidy and self._had_time(last):
            problem = not_freed(scene.disk.objects, START + timedelta(seconds=self._world.now))
            scene.checkers.require(problem is None, str(problem))
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
        entries = self._entries()
        next_run = self._last_run()
        epoch = self._scene.checkers.epoch_of(next_run.process)
        if self._had_time(next_run, entries) and epoch is not None:
            left = self._scene.checkers.leftovers(epoch)
            self._scene.checkers.require(not left, f"left behind by earlier runs: {left[:3]}")

    def _entries(self) -> int:
        return sum(key.startswith(("journal/", "folds/", "plans/", "manifests/")) for key in self._scene.disk.objects)

    def _had_time(self, run: SimulatedRun, entries: int | None = None) -> bool:
        """To tidy up: a request to stop may have waited for it; and many entries that a fold stands for go first, and
        many plans and manifests. `entries`: those that it found."""
        found = self._entries() if entries is None else entries
        enough = 3.0 + 0.03 * max(0, found - 40)
        return run.failure is None and run.lived > enough and self._scene.checkers.epoch_of(run.process) is not None

    def _undisturbed_run(self) -> SimulatedRun:
        last, tries = self._last_run(), 1
        while _was_overtaken(last.failure) or _asked_too_early(last.failure):
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


def _was_overtaken(failure: HoldfastError | None) -> bool:
    """By a newer run; or a run that it took the job from alive published once more, and the next start finds that."""
    published_meanwhile = isinstance(failure, StorageUnreachable) and "when it was chosen" in failure.message
    return isinstance(failure, OwnedByAnotherRun | Fenced) or published_meanwhile


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
    scene.checkers.records_plans = scene.settings["plans"] != "off"
    scene.checkers.reads_flip = scene.faults.flipped_read > 0
    scene.flips, scene.unreadable = scene.faults.flipped_read > 0, scene.dying > 0
    log = logging.getLogger("holdfast")
    defects = _Defects(scene)
    level, propagate = log.level, log.propagate
    kept = retention.HISTORY_KEPT, retention.ANSWERS_KEPT, recent.EVERY
    log.addHandler(defects)
    log.setLevel(logging.INFO)
    log.propagate = False
    retention.HISTORY_KEPT, retention.ANSWERS_KEPT = scene.history_kept, scene.answers_kept
    recent.EVERY = scene.copies_every
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
        retention.HISTORY_KEPT, retention.ANSWERS_KEPT, recent.EVERY = kept
        log.removeHandler(defects)
        log.setLevel(level)
        log.propagate = propagate
    return world
