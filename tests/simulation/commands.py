"""People at a terminal: commands that write to the job, through its mailbox or by owning it for a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.identifiers import AttemptId, JobName
from holdfast.repository.damage import mark_corrupt
from holdfast.repository.entries import Process as ProcessIdentity
from holdfast.repository.entries import RequestAnswered
from holdfast.repository.journal import Journal, read_entries
from holdfast.repository.mailbox import RequestKind
from holdfast.repository.savepoints import delete_savepoint, name_checkpoint
from holdfast.repository.state import JobState
from holdfast.runtime.commands.maintenance import maintenance
from holdfast.runtime.requests.asking import Asker, ask
from holdfast.runtime.run.environment import Environment
from tests.simulation.store import SimulatedStore
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.runs import Scene, SimulatedClock

JOB = JobName("job")


class SimulatedCommand:
    """One command, in a process of its own that may die or stall like any other."""

    def __init__(self, scene: Scene, clock: SimulatedClock, number: int) -> None:
        self._scene = scene
        self._world = scene.world
        self._clock = clock
        self._number = number
        self._attempts = 0
        self.process = Process(f"command{number}", born=scene.world.now)
        self._identity = ProcessIdentity("terminal", 10_000 + number)
        self._store = SimulatedStore(self._world, scene.disk, self.process, scene.faults, scene.checkers)
        if scene.liveness_is_watched:
            scene.checkers.polite.add(self.process)
        draw = self._world.random.random()
        work = self._maintain if draw < 0.5 else self._ask
        self._world.spawn(self.process, "command", lambda: self._run(work))

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except HoldfastError as error:
            self._world.note(f"fails: {type(error).__name__}: {error.message}")
        except Exception as error:
            self._scene.checkers.require(False, f"{self.process.name}: {error!r}")

    def _new_attempt(self) -> AttemptId:
        self._attempts += 1
        return AttemptId(f"{self.process.name}-{self._attempts}")

    # --- on a job that is not running ---

    def _maintain(self) -> None:
        if not self._store.children():
            return  # there is no such job, as every command says
        random = self._world.random.random
        around = Environment(
            self._clock,
            self._identity,
            self._new_attempt,
            random,
            lambda step: self._world.hesitate(),
            1,
            sleep=self._world.sleep,
        )
        with maintenance(JOB, "sim://home", self._store, "tidy", around, on_conflict="takeover") as journal:
            self._world.hesitate()
            self._write(journal)

    def _write(self, journal: Journal) -> None:
        draw, state = self._world.random, journal.state
        kept = [entry.id for entry in state.retained()]
        names = [entry.name for entry in state.retained() if entry.name]
        what = draw.random()
        if what < 0.4 and kept:
            name_checkpoint(journal, draw.choice(kept), f"m{self._number}")
        elif what < 0.8 and names:
            delete_savepoint(journal, draw.choice(names))
        elif kept:
            # As verification would: the copy is damaged, which abandons no line of batches.
            self._scene.unreadable = True
            id = draw.choice(kept)
            mark_corrupt(journal, id, "verified", passed_over=False)

    # --- through the mailbox ---

    def _ask(self) -> None:
        draw = self._world.random
        state = JobState.of(read_entries(self._store, 1))
        names = [entry.name for entry in state.retained() if entry.name]
        kept = [entry.id for entry in state.retained()]
        kind: RequestKind = draw.choice(("savepoint", "savepoint", "delete-savepoint", "stop", "collect"))
        checkpoint = draw.choice(kept) if kind == "savepoint" and kept and draw.random() < 0.4 else None
        name: str | None = f"r{self._number}"
        if kind == "delete-savepoint" and names:
            name = draw.choice(names)
        elif kind == "stop" and draw.random() < 0.5:
            name = None
        asker = Asker(self._clock, self._world.sleep, self._identity, lambda: f"request-{self._number}")
        answered = ask(
            JOB,
            self._store,
            state,
            kind,
            name=name,
            checkpoint=checkpoint,
            timeout=draw.choice((2.0, 6.0, 15.0)),
            asker=asker,
        )
        self._judge(kind, name, answered)

    def _judge(self, kind: RequestKind, name: str | None, answered: RequestAnswered) -> None:
        self._world.note(f"is answered: {answered.checkpoint} {answered.failure}")
        made = answered.failure is None and kind in ("savepoint", "stop") and name is not None
        if made:
            self._scene.checkers.require(answered.checkpoint is not None, f"{kind} {name} is done, with no checkpoint")
            self._scene.checkers.was_named(answered.checkpoint, name)  # type: ignore[arg-type]
