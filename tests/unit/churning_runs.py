"""Whole runs without Spark: the real runtime on real directories, driven step by step on a clock that the test moves.

The query is a small writer of Spark's layout that changes all of its state in every batch but for one file.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.checkpoint.manifest import Manifest, decode_manifest, manifest_key
from holdfast.errors import HoldfastError, StorageFull, StorageUnreachable
from holdfast.identifiers import AttemptId, JobName
from holdfast.repository.entries import CheckpointCompleted, Process
from holdfast.repository.journal import read_entries
from holdfast.repository.retention import keys_of
from holdfast.repository.self_report import NAME as STATE_FILE
from holdfast.repository.state import JobState
from holdfast.runtime.ports import RunDirectory, Supervisor
from holdfast.runtime.query_end import AS_ASKED, EndedBy, QueryEnd
from holdfast.runtime.run.components import Item, Threads
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.launching import launch
from holdfast.runtime.run.loop import Runtime
from holdfast.settings import Settings
from holdfast.sinks.protocol import Sink, SinkContext, SinkState, Step, no_step
from holdfast.storage.interface import Created, StoredObject
from holdfast.storage.local import LocalStore
from holdfast.workdir.factory import work_directory
from tests.unit.quiet_query import QuietQuery
from tests.unit.work_files import write

JOB = JobName("churn")
PARTITIONS = 2
BATCHES_RETAINED = 4
SMALL, LARGE = 300, 700
START = datetime(2026, 1, 1, tzinfo=UTC)

SETTINGS = {"interval": "1s", "retained": 2, "grace": "0s", "heartbeat": "10s", "on_conflict": "takeover"}

Watch = Callable[[str, str], None]


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.now)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class QueuedLanes:
    """Work waits until the test lets it be done, in the order in which it came."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._repeated: list[tuple[float, float, Callable[[], None]]] = []
        self.waiting: deque[Callable[[], None]] = deque()

    def submit(self, lane: str, work: Callable[[], None]) -> None:
        self.waiting.append(work)

    def every(self, lane: str, seconds: float, work: Callable[[], None]) -> None:
        self._repeated.append((self._clock.now + seconds, seconds, work))

    def wake(self) -> None:
        """Let be done what is repeated and due by now."""
        due = [work for at, _, work in self._repeated if at <= self._clock.now]
        self._repeated = [
            (self._clock.now + pause if at <= self._clock.now else at, pause, work)
            for at, pause, work in self._repeated
        ]
        self.waiting.extend(due)

    def busy_since(self) -> dict[str, float]:
        return {}


class WatchedStore(LocalStore):
    """Tells of every operation after its effect; of an upload also in the middle. Refuses what it is told to."""

    def __init__(self, root: Path, watch: Watch) -> None:
        super().__init__(root, within=JOB)
        self._watch = watch
        self.refuses: Callable[[str, bytes], bool] = lambda key, data: False
        self.unreadable: Callable[[str], bool] = lambda key: False
        self.full = False

    def create(self, key: str, data: bytes) -> Created:
        self._require_room(key)
        self._refuse("create", key, data)
        created = super().create(key, data)
        self._watch("create", key)
        return created

    def put(self, key: str, data: bytes) -> None:
        self._require_room(key)
        super().put(key, data)
        self._watch("put", key)

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        def watched() -> Iterator[bytes]:
            for chunk in chunks:
                yield chunk
                self._watch("half of upload", key)

        self._require_room(key)
        super().upload(key, watched())
        self._watch("upload", key)

    def get(self, key: str) -> bytes:
        if self.unreadable(key):
            raise StorageUnreachable(f"could not read {key}: refused")
        return super().get(key)

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        self._refuse("list", prefix)
        if self.unreadable(prefix):
            raise StorageUnreachable(f"could not list {prefix}: refused")
        yield from super().list(prefix, after)
        self._watch("list", prefix)

    def _require_room(self, key: str) -> None:
        if self.full:
            raise StorageFull(f"could not write {key}: no space left on device")

    def _refuse(self, operation: str, key: str, data: bytes = b"") -> None:
        if self.refuses(key, data):
            raise StorageUnreachable(f"could not {operation} {key}: refused")

    def delete(self, key: str) -> None:
        self._refuse("delete", key)
        super().delete(key)
        self._watch("delete", key)


class ChurningQuery(QuietQuery):
    sink: Sink | None = None
    batches_retained = BATCHES_RETAINED

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._end: QueryEnd | None = None
        self._notice: Callable[[], None] = lambda: None
        self.directory = Path()

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        return None

    def missing_input(self, paths: Sequence[str]) -> tuple[str, ...] | None:
        return None

    def plans_refusal(self) -> str | None:
        return "it writes nowhere"

    def repeat(self, directory: object, steps: object) -> None:
        raise AssertionError("it has no writer of its own")

    def open_sink(self, context: SinkContext) -> None:
        raise AssertionError("there is no sink")

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        self._end = None
        self._notice = supervisor.ended
        self.directory = Path(directory.location)
        if not (self.directory / "metadata").exists():
            write(self.directory, {"metadata": b'{"id":"00000000-0000-4000-8000-000000000000"}'})

    def stop(self) -> None:
        self._finish(AS_ASKED)

    def end(self) -> QueryEnd | None:
        return self._end

    def die(self, why: str, by: EndedBy = EndedBy.ERROR) -> None:
        self._finish(QueryEnd(by, why))

    def _finish(self, end: QueryEnd) -> None:
        self._end = end
        self._notice()

    def batch(self) -> None:
        commits = [int(path.name) for path in (self.directory / "commits").glob("*")]
        batch = max(commits, default=-1) + 1
        self.compute(batch, {f"offsets/{batch}": self.offsets_of(batch)})

    def offsets_of(self, batch: int) -> bytes:
        return b"v1\n{}\n%d" % batch

    def compute(self, batch: int, files: dict[str, bytes]) -> None:
        """Its state and its commit, with `files` before."""
        for partition in range(PARTITIONS):
            kind, size = ("snapshot", LARGE) if batch % 3 == 0 else ("delta", SMALL)
            files[f"state/0/{partition}/{batch + 1}.{kind}"] = self._random.randbytes(size)
        write(self.directory, files)
        write(self.directory, {f"commits/{batch}": b"v1\n{}"})
        self._forget(batch - BATCHES_RETAINED)

    def _forget(self, oldest: int) -> None:
        files = [path for top in ("offsets", "commits", "state") for path in (self.directory / top).rglob("*")]
        for path in [path for path in files if path.stem.isdigit() and path.is_file()]:
            if int(path.stem) < oldest:
                path.unlink()


class ChurningRun:
    """One run of the job, from its claim on. It has no thread: what is not asked for does not happen."""

    stores: Callable[[Path, Watch], WatchedStore] = WatchedStore

    def __init__(
        self,
        home: Path,
        work: Path,
        clock: ManualClock,
        seed: int = 0,
        watch: Watch = lambda operation, key: None,
        unreadable: Callable[[str], bool] = lambda key: False,
        query: "ChurningQuery | None" = None,
        step: Step = no_step,
        process: Process | None = None,
        **settings: object,
    ) -> None:
        """With a `process` it tells this host how it is, by a state file."""
        self.clock = clock
        self.query = query or ChurningQuery(seed)
        self.failure: HoldfastError | None = None
        self.over = False
        self._lanes = QueuedLanes(clock)
        self._items: deque[Item] = deque()
        numbers = iter(range(10_000))
        around = Environment(
            clock,
            process or Process("here", seed),
            lambda: AttemptId(f"{seed}-{next(numbers)}"),
            lambda: 0.5,
            step,
            1,
            sleep=clock.sleep,
        )
        chosen = Settings(**(SETTINGS | settings))  # type: ignore[arg-type]
        self.store = self.stores(home, watch)
        self.store.unreadable = unreadable
        state_file = work / JOB / STATE_FILE if process else None
        place = JobLocation(
            JOB, f"file://{home}", self.store, work_directory(work), chosen, around, state_file=state_file
        )
        threads = Threads(self._lanes, self._items.append)
        self.runtime = self._launched(place, threads)
        self.runtime.begin()
        self.settle()

    def _launched(self, place: JobLocation, threads: Threads) -> Runtime:
        return launch(place, self.query, threads, self._finish, tuple(place.settings.alarms))

    def _finish(self, failure: HoldfastError | None) -> None:
        self.failure, self.over = failure, True

    def settle(self) -> None:
        """Do everything that can be done now."""
        while self._items or self._lanes.waiting:
            if self._items:
                self.runtime.turn(self._items.popleft())
            else:
                self._lanes.waiting.popleft()()

    def wait(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += 0.25
            self._lanes.wake()
            self.runtime.poll()
            self.settle()

    def batches(self, count: int) -> None:
        """So many batches, each with a checkpoint."""
        for _ in range(count):
            self.query.batch()
            self.wait(1.25)

    def stop(self) -> None:
        self.runtime.stop(None, lambda answer: None)
        self.settle()
        assert self.over
        assert self.failure is None, self.failure


def stored_keys(home: Path) -> set[str]:
    """Blobs, packs, manifests, and what writers left half-written."""
    store = LocalStore(home, within=JOB)
    objects = {item.key for item in store.list("") if item.key.startswith(("blobs/", "packs/", "manifests/"))}
    return objects | {item.key for item in store.temporaries()}


def state_of(home: Path) -> JobState:
    return JobState.of(read_entries(LocalStore(home, within=JOB), readers=1))


def manifest_of(home: Path, entry: CheckpointCompleted) -> Manifest:
    return decode_manifest(LocalStore(home, within=JOB).get(manifest_key(entry.manifest)), entry.manifest)


def needed_keys(home: Path) -> set[str]:
    """What the retained checkpoints name."""
    return {key for entry in state_of(home).retained() for key in keys_of(entry, manifest_of(home, entry))}
