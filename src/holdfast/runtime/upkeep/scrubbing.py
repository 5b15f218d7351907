"""The background scrub: reads every retained object once per period, so that damage is found before the object is
needed.

Runs on its own lane, an object at a time, evenly spread over the period, and not during a checkpoint unless it has
fallen far behind. Objects are taken in the order of their digests, from a random position: a job that restarts often
does not read the same objects again and again.

Damage is confirmed by a second read, then repaired. What cannot be repaired is marked in the journal, and no longer
referenced: the next checkpoint uploads those bytes again, and is due even when no batch was committed since.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import datetime

from holdfast.checkpoint.manifest import manifest_key
from holdfast.coordination.events import CheckpointDamaged, Event, RunFenced
from holdfast.errors import Fenced, ObjectNotFound, StorageError
from holdfast.finding import Severity
from holdfast.identifiers import CheckpointId, Digest
from holdfast.job_log import log
from holdfast.repository.blobs import Blobs
from holdfast.repository.damage import checkpoints_naming, mark_corrupt, mark_repaired
from holdfast.repository.inventory import StoredFiles, objects_of
from holdfast.repository.journal import Journal
from holdfast.repository.last_verified import note_verified
from holdfast.repository.repair import LocalFiles, Repair
from holdfast.repository.verification import digest_in, verify
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import RunDirectory
from holdfast.storage.interface import ObjectStore

DAMAGED = "checkpoints_damaged"
_COST_PER_OBJECT = 64 << 10
"""A request takes about as long as reading this many bytes."""
_STEP = 0.001
"""The fraction of all bytes that one step reads at least."""
_SHORTEST_S = 0.2
"""The minimum pause between two steps."""
_AT_ONCE = 64 << 20
"""A step that reads more than this waits for other work."""
_WAIT_AFTER_ERROR_S = 60.0
_BEHIND = 0.25
"""As a fraction of the period: when the scrub is this late, it also runs during checkpoints."""

RaiseAlarm = Callable[[str, Severity, str, str], None]


class Scrubbing:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        blobs: Blobs,
        manifests: Manifests,
        period: float | None,
        begin_at: float,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Event | Callable[[], None]], None],
        raise_alarm: RaiseAlarm,
        clear_alarm: Callable[[str, str], None],
    ) -> None:
        """`period` in seconds, None for no scrub. `begin_at`, from 0 to 1, is the starting position among the
        objects."""
        self._store = store
        self._journal = journal
        self._blobs = blobs
        self._manifests = manifests
        self._period = period
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._raise_alarm = raise_alarm
        self._clear_alarm = clear_alarm
        self._position = f"{int(begin_at * (1 << 32)):08x}"
        self._next_at = clock.monotonic()
        self._under_way = False
        self._inventory: tuple[frozenset[CheckpointId], dict[str, StoredFiles]] = (frozenset(), {})
        self._damage: dict[str, str] = {}
        """Key → damage, of objects that could not be repaired."""
        self._lap_found = False
        self._lap: tuple[datetime, frozenset[CheckpointId]] | None = None
        """When this lap began, and the checkpoints that it reads whole. None in the first: it begins anywhere."""
        self._silent = False
        self._suspected: set[str] = set()
        self._suspects_due = clock.monotonic()

    # On the loop's thread.

    def poll(self, now: float, directory: RunDirectory, *, busy: bool) -> None:
        """Begin the next step when it is due. Suspected objects come first, even when there is no scrub."""
        if self._suspected and not self._under_way and now >= self._suspects_due:
            keys, self._suspected = frozenset(self._suspected), set()
            self._under_way = True
            self._lanes.submit("scrub", lambda: self._check_suspects(keys, directory))
        if self._period is None or self._under_way or now < self._next_at:
            return
        if busy and now < self._next_at + self._period * _BEHIND:
            return
        self._under_way = True
        self._lanes.submit("scrub", lambda: self._step(directory))

    def suspect(self, keys: frozenset[str]) -> None:
        """Objects that seem to be missing: they are repaired, or marked and no longer referenced. From any thread."""
        self._post(lambda: self._suspected.update(keys))

    def _stepped(self, wait: float) -> None:
        self._under_way = False
        self._next_at = self._clock.monotonic() + wait

    # On the scrub lane.

    def _step(self, directory: RunDirectory) -> None:
        wait = _WAIT_AFTER_ERROR_S
        try:
            wait = self._read_some(directory)
            self._silent = False
        except StorageError as error:
            if not self._silent:
                log.warning("the scrub failed, retrying: %s", error.message)
            self._silent = True
        finally:
            self._post(lambda: self._stepped(wait))

    def _check_suspects(self, keys: frozenset[str], directory: RunDirectory) -> None:
        try:
            objects = self._objects()
            for key in sorted(keys & objects.keys()):
                self._check_object(objects[key], objects, directory)
            for entry in self._journal.state.retained():
                if manifest_key(entry.manifest) in keys:
                    self._check_manifest(entry.id, entry.manifest)
        except StorageError as error:
            log.warning("could not check objects that seem to be missing, retrying: %s", error.message)
            self.suspect(keys)
            self._suspects_due = self._clock.monotonic() + _WAIT_AFTER_ERROR_S
        finally:
            self._post(self._looked)

    def _looked(self) -> None:
        self._under_way = False

    def _read_some(self, directory: RunDirectory) -> float:
        """Read the next objects; returns how long to wait until the following ones are due."""
        assert self._period is not None
        objects = self._objects()
        self._mark_what_was_completed_since(objects)
        manifests = {manifest_key(entry.manifest): entry for entry in self._journal.state.retained()}
        entries = self._journal.objects()
        ring = sorted((*objects, *manifests, *entries), key=_name)
        if not ring:
            return self._period
        total = sum(item.size for item in objects.values()) + len(ring) * _COST_PER_OBJECT
        done = 0
        while done < min(_AT_ONCE, total * max(_STEP, _SHORTEST_S / self._period)):
            key = self._next_in(ring)
            if key in objects:
                self._check_object(objects[key], objects, directory)
                done += objects[key].size
            elif key in manifests:
                self._check_manifest(manifests[key].id, manifests[key].manifest)
            else:
                self._check_entry(key, entries[key])
            done += _COST_PER_OBJECT
            self._position = _name(key)
        return self._period * done / total

    def _objects(self) -> dict[str, StoredFiles]:
        retained = {entry.id for entry in self._journal.state.retained()}
        manifests = {id: manifest for id, manifest in self._manifests.all().items() if id in retained}
        if self._inventory[0] != manifests.keys():
            self._inventory = (frozenset(manifests), objects_of(manifests))
        return self._inventory[1]

    def _next_in(self, ring: list[str]) -> str:
        place = bisect_right([_name(key) for key in ring], self._position)
        if place < len(ring):
            return ring[place]
        self._position = ""
        self._lap_over()
        return ring[0]

    def _lap_over(self) -> None:
        clean, lap = not self._lap_found and not self._damage, self._lap
        self._lap_found = False
        self._lap = (self._clock.wall(), self._inventory[0])
        if clean:
            self._post(lambda: self._clear_alarm(DAMAGED, "every retained object was read and is right"))
            if lap is not None:
                note_verified(self._store, self._journal.state.retained(), *lap)

    def _check_object(self, stored: StoredFiles, objects: Mapping[str, StoredFiles], directory: RunDirectory) -> None:
        found = digest_in(self._store, stored.key, stored.digest)
        if found == stored.digest:
            if self._damage.pop(stored.key, None):
                self._clear(stored.checkpoints)
            return
        if stored.key not in self._objects():
            return  # it was retired and deleted meanwhile
        self._lap_found = True
        here = LocalFiles(directory.location, directory.pieces)
        where = Repair(self._store, objects, [here]).put_right(stored)
        if where is None:
            self._cannot_repair(stored.key, stored.digest, found)
            return
        self._tell("warning", f"{stored.key} was damaged and is repaired: the same bytes were found in {where}")
        self._damage.pop(stored.key, None)
        self._clear(stored.checkpoints)

    def _check_manifest(self, id: CheckpointId, digest: Digest) -> None:
        key = manifest_key(digest)
        found = digest_in(self._store, key, digest)
        known = self._manifests.get(id)
        if found == digest:
            if self._damage.pop(key, None):
                self._clear((id,))
        elif id in {entry.id for entry in self._journal.state.retained()}:
            self._lap_found = True
            if known is not None and Repair(self._store, {}).put_manifest_right(known, digest):
                self._tell("warning", f"{key} was damaged and is repaired: this run still had its contents")
                self._damage.pop(key, None)
                self._clear((id,))
            else:
                self._cannot_repair(key, digest, found)

    def _check_entry(self, key: str, data: bytes) -> None:
        """A damaged or missing entry, or fold, would stop the next start. While this run lives, it has the contents."""
        if any(self._reads_as(key, data) for _ in range(2)) or key not in self._journal.objects():
            return
        self._lap_found = True
        self._lanes.submit("journal", lambda: self._appending(lambda: self._put_back(key, data)))

    def _reads_as(self, key: str, data: bytes) -> bool:
        try:
            return self._store.get(key) == data
        except ObjectNotFound:
            return False

    def _cannot_repair(self, key: str, expected: str, found: str) -> None:
        detail = f"{key}: expected {expected}, found {found}"
        if key not in self._damage:
            log.error("damage that cannot be repaired: %s", detail)
        self._damage[key] = detail
        damage = dict(self._damage)
        self._lanes.submit("journal", lambda: self._appending(lambda: self._mark(damage)))

    def _mark_what_was_completed_since(self, objects: Mapping[str, StoredFiles]) -> None:
        """A checkpoint in progress when the damage was found may still name the object."""
        manifests = {manifest_key(entry.manifest) for entry in self._journal.state.retained()}
        self._damage = {key: detail for key, detail in self._damage.items() if key in objects or key in manifests}
        if self._damage:
            damage = dict(self._damage)
            self._lanes.submit("journal", lambda: self._appending(lambda: self._mark(damage)))

    def _clear(self, ids: tuple[CheckpointId, ...]) -> None:
        """Clears the marks of those that verify completely now."""
        state = self._journal.state
        marked = [state.completed[id] for id in ids if id in state.corrupt and id not in state.passed_over]
        sound = [e.id for e in marked if verify(self._store, e.id, e.manifest, parallelism=1).sound]
        if sound:
            self._lanes.submit("journal", lambda: self._appending(lambda: self._mark_repaired(sound)))

    def _tell(self, severity: Severity, message: str) -> None:
        hint = "check the storage: its contents change without being written; holdfast verify reads all of it"
        self._post(lambda: self._raise_alarm(DAMAGED, severity, message, hint))

    # On the journal lane.

    def _appending(self, append: Callable[[], None]) -> None:
        try:
            append()
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
        except StorageError as error:
            log.warning("could not record damage, retrying: %s", error.message)

    def _mark(self, damage: Mapping[str, str]) -> None:
        state = self._journal.state
        found = checkpoints_naming(damage, state.retained(), self._manifests.all())
        new = {id: detail for id, detail in found.items() if id not in state.corrupt}
        for id, detail in new.items():
            mark_corrupt(self._journal, id, detail, passed_over=False)
        # From here on those bytes are uploaded again. Repeated each time: a checkpoint that completed meanwhile
        # references them again.
        self._blobs.forget(damage.keys())
        for id in new:
            self._post(CheckpointDamaged(id))
        if new:
            left = len(self._journal.state.restorable())
            ids = ", ".join(str(id) for id in sorted(new))
            message = f"damage was found that cannot be repaired: checkpoints {ids} are no longer used, {left} are left"
            self._tell("warning" if left else "critical", message)

    def _put_back(self, key: str, data: bytes) -> None:
        """Only the owner may repair it, in its own home, and only what no fold replaces: this lane folds."""
        if self._journal.objects().get(key) != data or self._reads_as(key, data):
            return
        self._journal.require_standing()
        self._store.upload(key, [data])
        self._tell("warning", f"{key} was damaged or lost and is repaired: this run still had its contents")

    def _mark_repaired(self, ids: list[CheckpointId]) -> None:
        state = self._journal.state
        for id in ids:
            if id in state.corrupt and id not in state.passed_over and id not in state.retired:
                mark_repaired(self._journal, id, "every byte was read and is right again")
                log.info("checkpoint %s is intact again and may be used for recovery", id)


def _name(key: str) -> str:
    """The digest in a key: it spreads all kinds of objects evenly."""
    return key.rpartition("/")[2]
