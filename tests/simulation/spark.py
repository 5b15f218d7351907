"""A simulated Spark: a query whose input is the natural numbers.

Batch n takes the numbers [a, b) that follow those of batch n-1; how many is decided when it is first planned
(`offsets/n`), so a batch that is planned anew after a restore is another batch. Each state store keeps the sum of its
numbers modulo 5, as a change per version and a base now and then, in the layout of Spark's HDFS-backed provider. So
what a directory must hold at a barrier, and what the sink must show, is known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.checkpoint.layout import newest_barrier
from holdfast.errors import HoldfastError
from holdfast.identifiers import BatchId
from holdfast.plans.plan import decode_plan
from holdfast.plans.replay import How, Repeat
from holdfast.plans.spark_logs import put_in_place
from holdfast.repository.lines import batch_of
from holdfast.repository.names import PLANS
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.own_writer import NONE_YET, Taken
from holdfast.runtime.ports import KeepPlan, Supervisor
from holdfast.runtime.query.causes import StartFailed
from holdfast.runtime.query_end import AS_ASKED, EndedBy, QueryEnd
from holdfast.sinks.protocol import SinkContext, SinkState
from tests.simulation.checkers import Checkers
from tests.simulation.sink import SimulatedSink
from tests.simulation.table import OwnTable
from tests.simulation.work import Host, SimulatedDirectory
from tests.simulation.world import Process, Task, World

PARTITIONS = 3
MODULUS = 5
BASE_EVERY = 4
BATCHES_RETAINED = 5

DAMAGED_STATE = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred"
_TRYING = "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred\nCaused by: "
MACHINE_FAILURES = tuple(
    _TRYING + cause
    for cause in (
        "java.io.IOException: Input/output error",
        "java.io.FileNotFoundException: /work/job/state/0/1/3.delta (Too many open files)",
        "java.io.IOException: Cannot allocate memory",
        "java.io.FileNotFoundException: /work/job/state/0/1/3.delta (Permission denied)",
        "java.nio.channels.ClosedByInterruptException",
        "org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-1:blk_1",
    )
)
STATE_MISSING = _TRYING + "java.io.FileNotFoundException: /work/job/state/0/1/3.delta does not exist"
OTHER_FAILURES = (
    "org.apache.spark.SparkException: the executor was lost",
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\nValueError: a poisonous row",
)


def end_of(offsets: bytes) -> int:
    return int(offsets)


def expected_state(partition: int, end: int) -> int:
    return sum(number for number in range(end) if number % PARTITIONS == partition) % MODULUS


def state_problem(files: dict[str, bytes], barrier: int) -> str | None:
    """Why a directory with these files is not what it must be at `barrier`."""
    end = end_of(files[f"offsets/{barrier}"])
    for partition in range(PARTITIONS):
        found = _state(files, partition, barrier + 1)
        if found != expected_state(partition, end):
            return f"partition {partition} holds {found} at batch {barrier}, not {expected_state(partition, end)}"
    return None


def _state(files: dict[str, bytes], partition: int, version: int) -> int | None:
    total = 0
    while version > 0:
        base = files.get(f"state/0/{partition}/{version}.snapshot")
        if base is not None:
            return (total + int(base.split()[0])) % MODULUS
        change = files.get(f"state/0/{partition}/{version}.delta")
        if change is None:
            return None
        total += int(change)
        version -= 1
    return total % MODULUS


class _StateMissing(Exception):
    """A sink has skipped the batch before, so it was never run."""


class SimulatedQuery:
    def __init__(
        self, world: World, process: Process, sink: SimulatedSink, checkers: Checkers, dying: float, pace: float
    ) -> None:
        self._world = world
        self._process = process
        self._sink = sink
        self._checkers = checkers
        self._dying = dying
        self._pace = pace
        self._task: Task | None = None
        self._wanted = False
        self._end: QueryEnd | None = None
        self._supervisor: Supervisor | None = None
        self.host: Host | None = None
        self.own: OwnTable | None = None
        """Where a writer of the user's own writes."""
        self._keep: KeepPlan | None = None
        self.requires_plans = False

    @property
    def application_id(self) -> str | None:
        return "sim"

    @property
    def sink(self) -> SimulatedSink | None:
        return self._sink if self.own is None else None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.body.dead and self._process.alive

    @property
    def batches_retained(self) -> int:
        return BATCHES_RETAINED

    def batch_reports(self) -> None:
        return None

    def describe(self) -> dict[str, str]:
        return {"spark": "simulated"}

    def look_ahead(self, ahead: Ahead) -> None:
        """Everything that can refuse does so after the claim, too."""

    def preflight(self, directory: SimulatedDirectory, barrier: BatchId | None) -> bool:
        return False

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        return None if self.sink is None else self._sink.look(context, None, None)

    def kafka_inputs(self) -> tuple[()]:
        return ()

    def kept_sources(self) -> tuple[()]:
        return ()

    def batches_read(self, since: object) -> tuple[()]:
        return ()

    def cores(self) -> None:
        return None

    def skipped_input(self) -> tuple[()]:
        return ()

    def missing_input(self, paths: Sequence[str]) -> tuple[str, ...]:
        return ()

    def own_writer(self, directory: SimulatedDirectory, *, new_line: bool = False) -> Taken | None:
        if self.own is None:
            return None
        offsets = (path.removeprefix("offsets/") for path in directory.files if path.startswith("offsets/"))
        found = newest_barrier(offsets)
        planned = NONE_YET if found is None else found
        return Taken("the own table", self.own.newest, known=True, earlier="reported", planned=planned)

    def commits_told(self) -> int | None:
        return None

    def plans_refusal(self) -> str | None:
        return None

    def repeat(self, directory: SimulatedDirectory, steps: Sequence[Repeat]) -> None:
        assert not self.running, "batches are repeated while no query runs"
        for step in steps:
            self._world.hesitate()
            if self.host is not None and directory.name not in self.host.directories:
                raise StartFailed("the directory is gone: a newer run on this host has removed it")
            put_in_place(directory, step.plan)
            if step.how is How.LEAVE:
                return
            self._world.note(f"repeats batch {step.batch_id}: {step.how.name}")
            self._wanted = True
            try:
                self._execute(directory, step.batch_id, discard=step.how is How.DISCARD)
            except (KeyError, _StateMissing) as error:
                # A newer run on this host has removed the directory, or somebody has stopped this run.
                raise StartFailed(f"batch {step.batch_id} could not be repeated: {error!r}") from error
            finally:
                self._wanted = False

    def open_sink(self, context: SinkContext) -> None:
        self._sink.open(context, None, None)

    def start(self, directory: SimulatedDirectory, supervisor: Supervisor) -> None:
        assert not self.running, "a query is started once at a time"
        self._world.hesitate()
        if self._unreadable() and self._world.chance(0.3):
            raise StartFailed(self._world.random.choice(MACHINE_FAILURES))
        barrier = directory.newest_barrier()
        if barrier is not None:
            if self.own is not None and _state(directory.contents(), 0, barrier + 1) is None:
                raise StartFailed(STATE_MISSING)
            problem = state_problem(directory.contents(), barrier)
            self._checkers.require(problem is None, f"the query would start on a wrong state: {problem}")
        self._end, self._wanted = None, True
        self._supervisor, self._keep = supervisor, supervisor.keep_plan
        self._task = self._world.spawn(self._process, "spark", lambda: self._run(directory))

    def _unreadable(self) -> bool:
        return self.host is not None and self.host.unreadable_until > self._world.now

    def stop(self) -> None:
        self._wanted = False
        while self.running:
            self._world.sleep(0.01)

    def end(self) -> QueryEnd | None:
        if self._wanted:
            return self._end
        return None if self.running else AS_ASKED

    def _run(self, directory: SimulatedDirectory) -> None:
        self._live(directory)
        if self._world.chance(0.8) and self._supervisor is not None:  # else the poll finds out
            self._supervisor.ended()

    def _live(self, directory: SimulatedDirectory) -> None:
        self._world.note(f"query runs in {directory.location} from batch {directory.newest_barrier()}")
        if "metadata" not in directory.files:
            directory.write("metadata", b'{"id":"q"}')
        while self._wanted:
            self._world.sleep(self._pace * (0.3 + self._world.random.random()))
            if self._wanted and self._unreadable() and self._world.chance(0.5):
                why = self._world.random.choice(MACHINE_FAILURES)
                self._world.note(f"query dies: {why}")
                self._end = QueryEnd(EndedBy.ERROR, why)
                return
            if self._wanted and self._world.chance(self._dying):
                why = DAMAGED_STATE if self._world.chance(0.3) else self._world.random.choice(OTHER_FAILURES)
                self._world.note(f"query dies: {why}")
                self._end = QueryEnd(EndedBy.ERROR, why)
                return
            try:
                self._batch(directory)
            except HoldfastError as error:
                self._end = QueryEnd(EndedBy.SINK, f"holdfast.errors.{type(error).__name__}: {error.message}")
                return
            except _StateMissing:
                self._end = QueryEnd(EndedBy.ERROR, STATE_MISSING)
                return
            except (KeyError, FileNotFoundError) as error:
                # A newer run on this host has removed the directory.
                self._end = QueryEnd(EndedBy.ERROR, f"the batch failed: {error!r}")
                return

    def _batch(self, directory: SimulatedDirectory) -> None:
        newest = directory.newest_barrier()
        batch = BatchId(0 if newest is None else newest + 1)
        if newest is not None and self.own is not None and _state(directory.contents(), 0, batch) is None:
            raise _StateMissing
        begin = self._begin_of(directory, batch)
        if f"offsets/{batch}" not in directory.files:
            offsets = str(begin + self._world.random.randrange(6)).encode()
            if self._keep is not None:
                self._keep(batch, offsets, lambda: not self._wanted)
            directory.write(f"offsets/{batch}", offsets)
        self._execute(directory, batch)

    def _begin_of(self, directory: SimulatedDirectory, batch: BatchId) -> int:
        return 0 if batch == 0 else end_of(directory.files[f"offsets/{batch - 1}"].data)

    def _execute(self, directory: SimulatedDirectory, batch: BatchId, *, discard: bool = False) -> None:
        begin, end = self._begin_of(directory, batch), end_of(directory.files[f"offsets/{batch}"].data)
        self._world.hesitate()
        # A sink that has the batch does not run it. What the run before has made of it is not there any more.
        skipped = self._keep is not None and self.own is not None and not discard and self.own.skips(batch)
        if not discard:
            self._write_rows(directory, batch, tuple(range(begin, end)))
        self._world.hesitate()
        if not self._wanted:
            return
        if not skipped:
            self._write_state(directory, batch, begin, end)
        self._world.hesitate()
        directory.write(f"commits/{batch}", b"v1\n{}")
        self._forget(directory, batch)

    def _write_rows(self, directory: SimulatedDirectory, batch: BatchId, rows: tuple[int, ...]) -> None:
        if self.own is None:
            staged = self._sink.stage_rows(rows, batch)
            directory.write(f"ledger/{batch}.json", msgspec.json.encode(staged))
            return
        self._world.hesitate()
        line = self._checkers.line
        if not self._checkers.owned_by(self._process) and not self._is_planned(directory, batch, line):
            # Whoever brings a writer of his own must stop the run that he takes the job from (docs/trust.md): unless
            # the new run repeats the batch, which it does not on another line.
            raise KeyError(f"batch {batch} is of a run that somebody has stopped")
        undisturbed = self._checkers.owned_by(self._process) and not self._checkers.is_home_changed
        if self.requires_plans and undisturbed:
            planned = self._is_planned(directory, batch)
            self._checkers.require(planned, f"the query's own writer gets batch {batch}, whose plan is not durable")
        doubled = sorted(set(rows) & self.own.rows)
        twice = bool(doubled) and not self.own.skips(batch) and not self.own.appends
        self._checkers.require(not twice, f"rows {doubled} come again under another id, batch {batch}")
        self.own.write(batch, rows)
        lost = sorted(set(rows) - self.own.rows)
        self._checkers.require(not lost, f"the query's own writer has seen batch {batch} and skips rows {lost}")

    def _is_planned(self, directory: SimulatedDirectory, batch: BatchId, line: int = 0) -> bool:
        """Whether the home says so, too, on a line from `line` on: then it is the same batch whoever runs it."""
        first = f"{PLANS}{line:020d}"
        found = [data for key, data in self._checkers.plans() if key >= first and batch_of(key) == batch]
        offsets = directory.files[f"offsets/{batch}"].data.decode()
        return any(decode_plan("", data).offsets == offsets for data in found)

    def _write_state(self, directory: SimulatedDirectory, batch: BatchId, begin: int, end: int) -> None:
        version = batch + 1
        for partition in range(PARTITIONS):
            change = sum(number for number in range(begin, end) if number % PARTITIONS == partition) % MODULUS
            directory.write(f"state/0/{partition}/{version}.delta", str(change).encode())
            if version % BASE_EVERY == 0:
                base = f"{expected_state(partition, end)} base".encode()
                directory.write(f"state/0/{partition}/{version}.snapshot", base)

    def _forget(self, directory: SimulatedDirectory, batch: BatchId) -> None:
        """Spark deletes behind `minBatchesToRetain`, as long as the state can be read."""
        oldest = batch - BATCHES_RETAINED
        for path in list(directory.files):
            top, _, name = path.rpartition("/")
            number = name.partition(".")[0]
            if not number.isdigit() or top == "ledger":
                continue
            version = int(number)
            if version + (BASE_EVERY if top.startswith("state") else 1) <= oldest:
                del directory.files[path]
