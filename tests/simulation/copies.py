"""A copy of the job in another home, made now and then while it goes on: it must know what the original decided."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from holdfast.errors import InvalidSettings, ObjectNotFound
from holdfast.identifiers import CheckpointId, JobName
from holdfast.repository.state import JobState
from holdfast.repository.transfer import Load, Progress
from holdfast.runtime.commands.copying import Copied, Copy, JobHome
from holdfast.storage.interface import Created, ObjectStore, StoredAt, StoredObject

JOB = JobName("job")


@dataclass
class DictStore:
    """A store in memory to which nothing happens."""

    url: str
    objects: dict[str, bytes] = field(default_factory=dict)

    def scoped(self, name: str) -> ObjectStore:
        return self

    def create(self, key: str, data: bytes) -> Created:
        return Created.WON if self.objects.setdefault(key, data) is data else Created.LOST

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def upload(self, key: str, chunks: Iterable[bytes]) -> None:
        self.objects[key] = b"".join(chunks)

    def copy_inside(self, source: StoredAt, key: str, through: str) -> str | None:
        return None

    def stored_at(self, key: str, version: str) -> StoredAt | None:
        return None

    def get(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise ObjectNotFound(f"could not read {key}: there is no such object") from None

    def read(self, key: str, offset: int, length: int) -> bytes:
        return self.get(key)[offset : offset + length]

    def stream(self, key: str) -> Iterator[bytes]:
        yield self.get(key)

    def exists(self, key: str) -> bool:
        return key in self.objects

    def list(self, prefix: str, after: str = "") -> Iterator[StoredObject]:
        for key in sorted(key for key in self.objects if key.startswith(prefix) and key > after):
            yield StoredObject(key, len(self.objects[key]), 0.0)

    def children(self) -> tuple[str, ...]:
        return (JOB,)

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def temporaries(self) -> Iterator[StoredObject]:
        return iter(())


@dataclass
class OtherHome:
    """Where the copy lies; brought up to date by each copy."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def copied(self, objects: dict[str, bytes]) -> str | None:
        """Copy the home as it is; what differs then in what a run over the copy would do. A copy of another life is
        refused, and stays as it is."""
        source = JobHome(JOB, "memory://home", DictStore("memory://home", dict(objects)))
        target = JobHome(JOB, "memory://copy", DictStore("memory://copy", self.objects))
        lives = {state.lineage for state in (source.state(), target.state())} - {None}
        try:
            done = Copy(source, target, _silently).run(source.state().retained(), whole=True)
        except InvalidSettings as refused:
            return None if len(lives) > 1 else f"a copy of one life is refused: {refused.message}"
        return _difference(source.state(), target.state(), done)


def _silently(load: Load) -> AbstractContextManager[Progress]:
    return nullcontext(lambda *_: None)


def _difference(original: JobState, copy: JobState, done: Copied) -> str | None:
    unlike = _broken(original, done) | _kept_for_want_of_newer(original, copy, done)
    questions: dict[str, Callable[[JobState], object]] = {
        "may be chosen": lambda state: {entry.id for entry in state.restorable()} - unlike,
        "are abandoned": lambda state: ({entry.id for entry in state.retained()} & state.abandoned) - set(done.damaged),
        "are named": lambda state: {e.id: e.name for e in state.retained() if e.name and e.id not in done.damaged},
        "was gone back to": lambda state: state.went_back and (state.went_back.asked, state.went_back.chosen),
        "is the highest id": lambda state: state.last_checkpoint,
    }
    for what, ask in questions.items():
        if ask(original) != ask(copy):
            return f"in the home {ask(original)} {what}, in its copy {ask(copy)}"
    return None


def _broken(original: JobState, done: Copied) -> set[CheckpointId]:
    """The bytes of these are each home's own affair."""
    return set(done.damaged) | set(original.corrupt)


def _kept_for_want_of_newer(original: JobState, copy: JobState, done: Copied) -> set[CheckpointId]:
    """What the original has retired stays in the copy as long as nothing newer could be brought."""
    kept = {entry.id for entry in original.retained()}
    return {entry.id for entry in copy.restorable() if entry.id not in kept and entry.id < max(done.damaged, default=0)}
