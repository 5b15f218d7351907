"""An object store that does everything a real one may do: fail before or after the effect, be slow, full, gone, lie
once in a while, deliver a write late, and let the world stop a process in the middle of any operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Protocol, TypeVar

from greenlet import GreenletExit

from holdfast.errors import (
    ObjectNotFound,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageUnreachable,
)
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject
from holdfast.storage.object_store_answers import Effect, named
from holdfast.storage.whole import not_whole
from tests.simulation.world import Process, World

T = TypeVar("T")
_PAGE = 4


@dataclass
class Faults:
    """Probabilities per operation."""

    before: float = 0.0
    """An error without an effect."""
    after: float = 0.0
    """An error after the effect."""
    delayed: float = 0.0
    """An error, and it happens later."""
    slow: float = 0.0
    full: float = 0.0
    flipped_read: float = 0.0
    flipped_rest: float = 0.0
    crash: float = 0.0
    stall: float = 0.0
    outages: tuple[tuple[float, float], ...] = ()
    """From, to: nothing works."""
    broken: tuple[tuple[float, float], ...] = ()
    """From, to: the newest manifest comes with wrong bytes, though it lies right, and no upload is taken."""
    sink_full: tuple[tuple[float, float], ...] = ()
    """From, to: nothing can be published."""
    stray: float = 0.0
    """A 404 for an object that is there. Listings say the truth."""
    stray_spells: tuple[tuple[float, float, str], ...] = ()
    """From, to, prefix: only such answers."""
    gateway: float = 0.0
    """A deciding write takes effect, and something between answers in the store's place."""
    vanishing: float = 0.0
    """A staged file is gone before it is listed."""
    late_answer: float = 0.0
    """An upload has taken effect, and its answer comes seconds later."""
    short: float = 0.0
    """A read gives fewer bytes than there are."""

    @classmethod
    def drawn(cls, world: World, duration: float) -> Faults:
        """Some of them, more or less often; in some worlds none at all."""
        draw = world.random
        faults = cls()
        most = {
            "before": 0.05, "after": 0.05, "delayed": 0.04, "slow": 0.05, "full": 0.03,
            "flipped_read": 0.004, "flipped_rest": 0.003, "crash": 0.008, "stall": 0.012,
        }  # fmt: skip
        for name, limit in most.items():
            if draw.random() < 0.4:
                setattr(faults, name, limit * draw.random())
        if draw.random() < 0.3:
            begin = draw.random() * duration
            faults.outages = ((begin, begin + draw.random() * 12.0),)
        return faults

    def stop(self) -> None:
        for item in fields(self):
            setattr(self, item.name, () if isinstance(getattr(self, item.name), tuple) else 0.0)


class Watcher(Protocol):
    """Looks at every change of the disk, as it takes effect."""

    def created(self, key: str, data: bytes, process: Process) -> None: ...
    def put(self, key: str, process: Process) -> None: ...
    def uploaded(self, key: str, data: bytes, process: Process) -> None: ...
    def opened(self, key: str) -> None: ...
    def deleted(self, key: str, process: Process) -> None: ...


@dataclass
class Disk:
    """What is stored, whoever asks."""

    objects: dict[str, bytes] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    """Keys whose bytes the world has changed."""
    originals: dict[str, bytes] = field(default_factory=dict)
    """Their bytes as they were."""
    ever_damaged: bool = False
    denied: dict[str, float] = field(default_factory=dict)
    """Keys that answer 403, until when."""
    trimmed: set[str] = field(default_factory=set)
    """Keys of the journal that were deleted. A late write does not come that late: hundreds of entries lie between."""

    away_since: float | None = None
    """A mounted disk is not there: whoever had opened it knows, by `home.json`; others see an empty place."""

    def another_for(self, process: Process) -> bool:
        return self.away_since is not None and process.born < self.away_since

    def damage(self, key: str, data: bytes | None) -> None:
        """Other bytes at rest, or none."""
        was = self.objects.pop(key)
        if key not in self.damaged:
            self.originals[key] = was
        if data is not None:
            self.objects[key] = data
        self.damaged.add(key)
        self.ever_damaged = True

    def mend(self) -> None:
        """From a copy of the home that somebody has."""
        self.objects.update({key: data for key, data in self.originals.items() if key in self.damaged})
        self.damaged.clear()


class SimulatedStore:
    def __init__(self, world: World, disk: Disk, process: Process, faults: Faults, watcher: Watcher) -> None:
        self._world = world
        self._disk = disk
        self._process = process
        self._faults = faults
        self._watcher = watcher

    @property
    def url(self) -> str:
        return "sim://home"

    def scoped(self, name: str) -> ObjectStore:
        return self

    def create(self, key: str, data: bytes) -> Created:
        def effect() -> Created:
            if key in self._disk.objects:
                return Created.LOST
            self._watcher.created(key, data, self._process)
            self._disk.objects[key] = data
            return Created.WON

        created = self._write("create", key, effect)
        if self._world.chance(self._faults.gateway):
            raise self._gateway(key)
        return created

    def _gateway(self, key: str) -> StorageError:
        """What the product takes the answer for."""
        status = self._world.random.choice((400, 404, 499, 502, 520, 524, 529, 599))
        self._note("create", key, f"answered {status} by a GATEWAY")
        text = f'Server returned: inner: Status {{ status: {status}, body: Some("<html>no upstream</html>") }}'
        return named("create", key, FileNotFoundError(text) if status == 404 else OSError(text), Effect.DECIDING)

    def put(self, key: str, data: bytes) -> None:
        def effect() -> None:
            self._watcher.put(key, self._process)
            self._disk.objects[key] = data

        self._write("put", key, effect)

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        data = b"".join(chunks)

        def effect() -> None:
            self._watcher.uploaded(key, data, self._process)
            self._disk.objects[key] = data
            self._disk.damaged.discard(key)
            if self._world.chance(self._faults.flipped_rest):
                self._disk.damage(key, _flipped(data, self._world))

        self._write("upload", key, effect)
        if self._world.chance(self._faults.late_answer):
            self._note("upload", key, "is answered LATE")
            self._world.sleep(self._world.random.random() * 4.0)

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        return None

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return None

    def get(self, key: str) -> bytes:
        return self._read("get", key, lambda: self._there(key))

    def read(self, key: str, offset: int, length: int) -> bytes:
        return self._read("read", key, lambda: self._there(key)[offset : offset + length])

    def stream(self, key: str) -> Iterator[bytes]:
        yield self.get(key)

    def exists(self, key: str) -> bool:
        def look() -> bool:
            return key in self._disk.objects and not self._strays(key)

        return self._read("exists", key, look)

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        """In pages, each of which shows the store as it is at that moment."""
        while True:
            page = self._read("list", f"{prefix}* after {after[-12:]}", partial(self._page, prefix, after))
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1].key

    def children(self) -> tuple[str, ...]:
        return ("job",) if any(key.startswith("journal/") for key in self._disk.objects) else ()

    def delete(self, key: str) -> None:
        def effect() -> None:
            if key in self._disk.objects:
                self._watcher.deleted(key, self._process)
                del self._disk.objects[key]
                if key.startswith("journal/"):
                    self._disk.trimmed.add(key)

        self._write("delete", key, effect)

    def temporaries(self) -> Iterator[StoredObject]:
        return iter(())

    # --- how an operation goes ---

    def _page(self, prefix: str, after: str) -> list[StoredObject]:
        keys = sorted(key for key in self._disk.objects if key.startswith(prefix) and key > after)
        return [StoredObject(key, len(self._disk.objects[key]), self._world.now) for key in keys[:_PAGE]]

    def _strays(self, key: str) -> bool:
        in_spell = any(
            begin <= self._world.now < end and key.startswith(prefix)
            for begin, end, prefix in self._faults.stray_spells
        )
        strays = in_spell or self._world.chance(self._faults.stray)
        if strays:
            self._note("get", key, "STRAY 404")
        return strays

    def _there(self, key: str) -> bytes:
        self._watcher.opened(key)
        if self._disk.denied.get(key, 0.0) > self._world.now:
            raise StorageDenied(f"could not read {key}: the server answered 403 InvalidObjectState")
        if self._strays(key):
            raise ObjectNotFound(f"could not read {key}: there is no such object")
        try:
            return self._disk.objects[key]
        except KeyError:
            raise ObjectNotFound(f"could not read {key}: there is no such object") from None

    def _write(self, operation: str, key: str, effect: Callable[[], T]) -> T:
        self._begin(operation, key)
        if self._world.chance(self._faults.full):
            self._note(operation, key, "FULL")
            raise StorageFull(f"could not {operation} {key}: no space left")
        if operation == "upload" and self._is_broken():
            self._note(operation, key, "REFUSED for a while")
            raise StorageUnreachable(f"could not {operation} {key}: no answer")
        if self._world.chance(self._faults.delayed) and operation != "delete":
            self._note(operation, key, "LATER")
            self._world.spawn(self._world.outside, "late write", lambda: self._late(operation, key, effect), 0.5)
            raise OutcomeUnknown(f"could not {operation} {key}: no answer")
        result = effect()
        return self._end(operation, key, result, OutcomeUnknown)

    def _late(self, operation: str, key: str, effect: Callable[[], object]) -> None:
        self._world.sleep(self._world.random.random() * 2.0)
        if key in self._disk.trimmed:
            return
        self._world.note(f"{operation} {key} takes effect: {effect()}", self._process)

    def _read(self, operation: str, key: str, look: Callable[[], T]) -> T:
        self._begin(operation, key)
        result = look()
        if isinstance(result, bytes) and self._world.chance(self._faults.short):
            self._note(operation, key, "SHORT")
            result = self._whole(key, result[: len(result) // 2], len(result))  # type: ignore[assignment]
        if isinstance(result, bytes) and self._world.chance(self._faults.flipped_read):
            self._note(operation, key, "FLIPPED")
            result = _flipped(result, self._world)  # type: ignore[assignment]
        if isinstance(result, bytes) and result and self._comes_wrong(key):
            self._note(operation, key, "WRONG for a while")
            result = bytes([result[0] ^ 1]) + result[1:]  # type: ignore[assignment]
        return self._end(operation, key, result, StorageUnreachable)

    def _whole(self, key: str, data: bytes, length: int) -> bytes:
        """As every store does: all of it, or an error."""
        if len(data) != length:
            raise not_whole(key, len(data), length)
        return data

    def _begin(self, operation: str, key: str) -> None:
        self._wait()
        self._maybe_stop(operation, key)
        if self._disk.another_for(self._process):
            raise StorageUnreachable(f"could not {operation} {key}: the home is not the one that was opened")
        if self._out() or self._world.chance(self._faults.before):
            self._note(operation, key, "ERROR before")
            raise StorageUnreachable(f"could not {operation} {key}: no connection")

    def _end(self, operation: str, key: str, result: T, error: type[OutcomeUnknown] | type[StorageUnreachable]) -> T:
        shown = result.value if isinstance(result, Created) else ""
        self._note(operation, key, shown)
        self._maybe_stop(operation, key)
        self._wait()
        if self._world.chance(self._faults.after):
            self._note(operation, key, "ERROR after")
            raise error(f"could not {operation} {key}: no answer")
        return result

    def _wait(self) -> None:
        if not self._process.alive:
            raise GreenletExit
        self._world.sleep(self._world.random.random() * (2.0 if self._world.chance(self._faults.slow) else 0.008))

    def _maybe_stop(self, operation: str, key: str) -> None:
        """The process may die or fall asleep at every single operation, before and after its effect."""
        if self._world.chance(self._faults.crash):
            self._note(operation, key, "CRASH here")
            self._world.crash(self._process)
            raise GreenletExit
        if self._world.chance(self._faults.stall):
            self._note(operation, key, "STALL here")
            self._world.stall(self._process, 0.5 + self._world.random.random() * 15.0)
            self._world.hesitate()

    def _is_broken(self) -> bool:
        return any(begin <= self._world.now < end for begin, end in self._faults.broken)

    def _comes_wrong(self, key: str) -> bool:
        if not (key.startswith("manifests/") and self._is_broken()):
            return False
        return key == next(known for known in reversed(self._disk.objects) if known.startswith("manifests/"))

    def _out(self) -> bool:
        return any(begin <= self._world.now < end for begin, end in self._faults.outages)

    def _note(self, operation: str, key: str, outcome: str) -> None:
        self._world.note(f"{operation} {key} {outcome}")


def _flipped(data: bytes, world: World) -> bytes:
    if not data:
        return data
    at = world.random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << world.random.randrange(8))]) + data[at + 1 :]
