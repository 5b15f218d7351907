"""The invariants of the design, looked at whenever the store or the sink changes.

1. A completed checkpoint restores, byte for byte, until it is retired, and holds the state of its barrier.
2. Ids are unique and rise; nothing completed is overwritten or harmed.
3. After a newer run-started no older run appends; what an older run still deletes, nobody needs.
   What a stalled run writes into a place that a fold has emptied, nobody believes, it least of all.
   The journal is an unbroken chain; a fold is there before it is official, and holds what is needed.
   Nothing is deleted before the grace of the checkpoints that named it is over.
4. Readers see every row exactly once, and only rows whose checkpoint is in the journal.
8. What was uploaded is not uploaded again, unless a later checkpoint had no use for it or little use for its pack.
9. Every failure has a reason and a hint.
What has a name that holdfast never uses is neither read nor deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from holdfast.checkpoint.manifest import Manifest, ManifestFile, decode_manifest, digest_of, manifest_key
from holdfast.checkpoint.packed_plans import packed_range
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch
from holdfast.plans.packing import decode_packed
from holdfast.plans.plan import decode_plan
from holdfast.repository.collection import is_of_earlier_run
from holdfast.repository.entries import (
    AnyEntry,
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointFailedEntry,
    CheckpointRepaired,
    CheckpointsRetired,
    CheckpointStarted,
    JournalFolded,
    RequestAnswered,
    RunEnded,
    RunStarted,
    SavepointDeleted,
    SavepointNamed,
    WentBack,
)
from holdfast.repository.lines import batch_of
from holdfast.repository.names import FOLDERS, is_entry, is_foreign, is_plan
from tests.simulation.store import Disk
from tests.simulation.world import Process, Violation, World

if TYPE_CHECKING:
    from tests.simulation.table import Table

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The time of day when a world begins."""

StateProblem = Callable[[dict[str, bytes], int], str | None]
Memory = dict[str, object]
"""What the checkers know of one home, apart from its bytes."""
_OF_THE_HOME = (
    "_folded_upto", "_folds", "_tip", "_place", "_before_claims",
    "_entries", "_void", "_head", "_owner", "_started", "_last_id", "completed", "_corrupt", "_passed_over",
    "_passed_at", "_abandoned", "_went_to", "line", "_names", "_answered", "_ends", "_retired", "_useless",
    "_began",
    "_ever_retired", "_stored",
)  # fmt: skip
_BEATS_WATCHED = 5
"""So many seconds, with a heartbeat in each, are enough for whoever watches."""
_TIME_TO_NOTICE = 2.0
"""Seconds that may lie between the proof that a home is a run's own and what the run does there."""


class Checkers:
    def __init__(self, world: World, disk: Disk, state_problem: StateProblem) -> None:
        self._world = world
        self._disk = disk
        self._state_problem = state_problem
        self.shows_batches = False
        """Readers may see a batch before a checkpoint has it, once its plan is durable."""
        self._entries: dict[int, AnyEntry] = {}
        self._void: dict[int, Process | None] = {}
        """Entries in places that a fold has emptied, with who relies on them: they do not hold."""
        self._held: set[str] = set()
        self._ever_held: set[str] = set()
        """Of every home that the world has had."""
        """Digests of the entries that were part of a journal."""
        self._folded_upto = 0
        self._folds: dict[str, bytes] = {}
        self._tip = ""
        """Digest of the newest entry."""
        self._head = 0
        self._place = 1
        """Where the next entry goes."""
        self._owner: tuple[FencingEpoch, Process] | None = None
        self._before_claims: dict[int, tuple[int, str, int, tuple[FencingEpoch, Process] | None]] = {}
        """What was so before each claim: several that were made behind one another may be taken back in turn."""
        self._started: dict[CheckpointId, FencingEpoch] = {}
        self._last_id = 0
        self.completed: dict[CheckpointId, tuple[CheckpointCompleted, Manifest]] = {}
        self._corrupt: set[CheckpointId] = set()
        self._passed_over: set[CheckpointId] = set()
        self._passed_at: dict[CheckpointId, int] = {}
        self._abandoned: set[CheckpointId] = set()
        self._went_to: tuple[str, CheckpointId] | None = None
        self.line = 0
        """The entry that began the line of batches that the job is on."""
        self._names: dict[CheckpointId, str] = {}
        self._ever_named: set[tuple[CheckpointId, str]] = set()
        self._answered: set[str] = set()
        self._ends: dict[CheckpointId, int] = {}
        """How many rows there are up to the checkpoint's barrier."""
        self._retired: dict[CheckpointId, datetime] = {}
        self.grace: timedelta | None = None
        """None where clocks jump: then it can be shorter."""
        self._useless: set[str] = set()
        """Packs of which a checkpoint needed less than a quarter, and objects that one could have named and did not."""
        self._began: dict[CheckpointId, float] = {}
        self._ever_retired: set[str] = set()
        self._stored: dict[tuple[str, str], dict[str, float]] = {}
        self._manifests: dict[str, bytes] = {}
        """As they were uploaded, whatever became of them since."""
        self.publications = 0
        self._newest: dict[Process, tuple[int, bytes]] = {}
        """The newest entry that each process appended."""
        self._astray: dict[Process, float] = {}
        """Whose newest entry does not stand in the home any more, and since when."""
        self._home_changed_at = 0.0
        self.expired: frozenset[str] = frozenset()
        """Entries that a lifecycle rule has deleted, until they are put back: the journal is refused, and their places
        are free for a run that slept since before they were taken, until it meets one that is left and is fenced."""
        self._wrecked = False
        """Somebody who was astray deleted entries of the home that is there now, before it could know."""
        self._strays: dict[str, Process] = {}
        """What they wrote to the home that is there now."""
        self._seen: dict[Process, tuple[Table, tuple[int, int]]] = {}
        """The table as each process saw it last: which one it was, and in which version."""
        self.may_take_back: set[Process] = set()
        """Runs that a person told to go on from an older home or from another table."""
        self._planned_by: dict[Process, set[tuple[BatchId, int]]] = {}
        """The batches that each process made a plan of, and how many rows there are with them."""
        self.records_plans = False
        """Checkpoints hold the plans of their batches."""
        self.reads_flip = False
        """Bytes that lie right may come wrong, again and again."""
        self.damage_is_proved = False
        """Whether nothing sound may be passed over."""
        self.polite: set[Process] = set()
        """Who takes a job only from a run that is dead."""
        self.has_seen_a_claim: set[Process] = set()
        """Owners behind which a claim stood for a moment, and was taken back: they may have ended because of it."""
        self._beats: dict[Process, list[float]] = {}
        self._recorded_its_end: set[Process] = set()

    # --- a home that others handle ---

    def memory(self) -> Memory:
        return {name: _copied(getattr(self, name)) for name in _OF_THE_HOME}

    def no_memory(self) -> Memory:
        empty = Checkers(self._world, self._disk, self._state_problem)
        return {name: getattr(empty, name) for name in _OF_THE_HOME}

    def home_changed(self, memory: Memory) -> None:
        """The disk is another one, of which `memory` is known. Who had written last to the one before is astray."""
        self._home_changed_at = self._world.now
        self._wrecked = False
        self._strays.clear()
        for name, value in memory.items():
            setattr(self, name, _copied(value))
        for process, (sequence, data) in self._newest.items():
            stands = self._disk.objects.get(f"journal/{sequence:020d}.json") == data
            if stands:
                self._astray.pop(process, None)
            else:
                self._astray.setdefault(process, self._world.now)

    def is_astray(self, process: Process) -> bool:
        return process in self._astray

    @property
    def anybody_astray(self) -> bool:
        return bool(self._astray)

    def _require_soon(self, process: Process, what: str) -> None:
        since = max(self._astray[process], process.stalled_until)
        late = self._world.now - since > _TIME_TO_NOTICE
        self.require(
            not late, f"{process.name} {what} though its home is another one since {self._astray[process]:.1f}"
        )

    def now(self) -> float:
        return self._world.now

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._world.note(f"VIOLATION: {otherwise}")
            raise Violation(otherwise)

    @property
    def is_home_changed(self) -> bool:
        """Whether others have had their hands on it."""
        return self._home_changed_at > 0.0 or self._disk.ever_damaged or self.anybody_astray

    def plans(self) -> list[tuple[str, bytes]]:
        """Those that stand in the home."""
        stored = self._disk.objects.items()
        return [(key, data) for key, data in stored if is_plan(key) and key not in self._disk.damaged]

    def owned_by(self, process: Process) -> bool:
        return self._owner is not None and self._owner[1] is process

    def epoch_of(self, process: Process) -> FencingEpoch | None:
        return self._owner[0] if self._owner is not None and self._owner[1] is process else None

    # --- the store ---

    def created(self, key: str, data: bytes, process: Process) -> None:
        if key.startswith("folds/"):
            self._folds[key] = data
        if is_plan(key):
            self._planned_by.setdefault(process, set()).add((batch_of(key), int(decode_plan(key, data).offsets)))
        if key.startswith("journal/"):
            self._entered(key, data, process)

    def _entered(self, key: str, data: bytes, process: Process) -> None:
        entry: AnyEntry = msgspec.json.decode(data, type=AnyEntry)
        self._world.note(f"journal {entry.sequence}: {_shown(entry)}", process)
        linked = (entry.previous, entry.previous_digest) == (self._head, self._tip)
        if self._wrecked and isinstance(entry, RunStarted):
            self._place, linked, self._wrecked = entry.sequence, True, False
        is_void = not linked and entry.sequence <= self._folded_upto
        if not linked and key in self.expired:
            self._astray.setdefault(process, self._world.now)
            return
        if not linked and not is_void and process.born < self._home_changed_at:
            self._astray.setdefault(process, self._home_changed_at)
            goes_on = self._strays.get(f"journal/{entry.previous:020d}.json") is process
            # A delayed second effect of an entry it had written before is not its own doing.
            newest, _ = self._newest.get(process, (0, b""))  # 0: all that it has written is there
            goes_on = goes_on and newest != entry.previous and digest_of(data) not in self._ever_held
            self.require(not goes_on, f"{process.name} goes on with {_shown(entry)} in a home that is not its own")
            self._strays[key] = process
            return
        believed = [n for n, writer in self._void.items() if writer is process and n != entry.sequence]
        self.require(not believed, f"{process.name} goes on behind entry {believed[:1]}, which never held")
        if is_void:
            held = digest_of(data) in self._held  # a delayed second effect, of which its writer knows nothing
            self._void[entry.sequence] = None if held else process
            return  # whoever put it there notices, and gives up
        self.require(linked, f"{_shown(entry)} does not follow entry {self._head}")
        if self._newest.get(process) == (entry.sequence, data):
            self._astray.pop(process, None)  # all that the home lacked was an append without an answer, made again
        self._newest[process] = (entry.sequence, data)
        if isinstance(entry, RunStarted):
            self.require(entry.sequence == self._place, "the journal has a gap")
            if self._owner is not None and process in self.polite:
                self._require_dead(self._owner[1], process)
            self._before_claims[entry.sequence] = (self._head, self._tip, self._place, self._owner)
            self._owner = (entry.fencing_epoch, process)
        else:
            self._appended(entry, process)
        self._entries[entry.sequence] = entry
        self._head, self._tip = entry.sequence, digest_of(data)
        self._held.add(self._tip)
        self._ever_held.add(self._tip)
        self._place = (isinstance(entry, RunStarted) and entry.next_sequence) or entry.sequence + 1
        self._adopt_what_follows()

    def _adopt_what_follows(self) -> None:
        """An entry that came late may have been all that a home lacked to be its writer's: what that one wrote behind
        it is part of the journal then."""
        key = f"journal/{self._place:020d}.json"
        writer, data = self._strays.get(key), self._disk.objects.get(key)
        if writer is None or data is None or msgspec.json.decode(data)["previous_digest"] != self._tip:
            return
        del self._strays[key]
        self._astray.pop(writer, None)
        self.created(key, data, writer)

    def _require_dead(self, owner: Process, by: Process) -> None:
        """Whoever watched the owner for as long as its heartbeat lives has seen it change."""
        beats = [at for at in self._beats.get(owner, ()) if at > self._world.now - _BEATS_WATCHED]
        lives = owner.alive and owner.stalled_until <= self._world.now and owner not in self._recorded_its_end
        awake = by.stalled_until < self._world.now - _BEATS_WATCHED
        seen = lives and awake and len(beats) >= _BEATS_WATCHED
        self.require(not seen, f"{by.name} takes the job from {owner.name}, whose heart beats")

    def put(self, key: str, process: Process) -> None:
        overwrites = is_plan(key) and key in self._disk.objects
        self.require(not overwrites, f"{process.name} puts {key} over the plan that stands there")
        if key == "owner.json":
            self._beats.setdefault(process, []).append(self._world.now)

    def _appended(self, entry: AnyEntry, process: Process) -> None:  # noqa: C901  one case per kind
        assert self._owner is not None
        epoch, owner = self._owner
        self.require(process is owner, f"{process.name} appends {_shown(entry)} though {owner.name} owns the job")
        self.require(entry.fencing_epoch == epoch, f"{_shown(entry)} carries epoch {entry.fencing_epoch}, not {epoch}")
        self.require(entry.sequence == self._place, f"{_shown(entry)} is not at the end of the journal")
        match entry:
            case CheckpointStarted():
                self.require(entry.id > self._last_id, f"checkpoint id {entry.id} is used twice")
                self._last_id = entry.id
                self._started[entry.id] = epoch
                self._began[entry.id] = self._world.now
            case CheckpointCompleted():
                self._checkpoint_completed(entry)
            case CheckpointFailedEntry():
                known = entry.failure.reason in {reason.value for reason in FailureReason}
                told = known and entry.failure.message and entry.failure.hint
                self.require(bool(told), f"a failure without reason, message or hint: {entry.failure}")
            case CheckpointsRetired():
                self._checkpoints_retired(entry)
            case CheckpointCorrupt():
                self._require_damage(entry)
                self._corrupt.add(entry.id)
                if entry.passed_over:
                    self.line = entry.sequence
                    self._passed_over.add(entry.id)
                    self._passed_at[entry.id] = entry.sequence
                if entry.id in self.completed:  # what it names is not trusted any more, and may be uploaded again
                    self._ever_retired |= {file.key for file in self.completed[entry.id][1].files()}
            case CheckpointRepaired():
                if entry.returns:
                    self.line = entry.sequence
                    newer = [c.sequence for c, _ in self.completed.values() if c.sequence > self._passed_at[entry.id]]
                    self.require(not newer, f"checkpoint {entry.id} comes back although the other line went on")
                    self._passed_over.discard(entry.id)
                self.require(entry.id not in self._passed_over, f"checkpoint {entry.id}, passed over, comes back")
                self._corrupt.discard(entry.id)
            case WentBack():
                self._went_back(entry, process)
            case SavepointNamed():
                kept = entry.id in self.completed and entry.id not in self._retired
                self.require(kept or self._disk.ever_damaged, f"checkpoint {entry.id} is named, but not kept")
                self._named(entry.id, entry.name)
            case SavepointDeleted():
                self.require(self._names.pop(entry.id, None) == entry.name, f"{entry.name} is deleted, but not there")
            case RunEnded():
                self._recorded_its_end.add(process)
            case RequestAnswered():
                self.require(entry.request not in self._answered, f"request {entry.request} is answered twice")
                self._answered.add(entry.request)
            case JournalFolded():
                self._journal_folded(entry)

    def _require_damage(self, entry: CheckpointCorrupt) -> None:
        if not (entry.passed_over and self.damage_is_proved and entry.id in self.completed.keys() - self._corrupt):
            return  # nobody says that it is abandoned, or somebody proved the damage before
        completed, manifest = self.completed[entry.id]
        keys = {manifest_key(completed.manifest), *(file.key for file in manifest.files())}
        sound = all(key in self._disk.objects for key in keys) and not keys & (
            self._disk.damaged | set(self._disk.denied)
        )
        cheap = any(
            id < entry.id and (entry.published is None or older.barrier_batch_id >= entry.published)
            for id, (older, _) in self.completed.items()
            if id not in self._corrupt | self._retired.keys() | self._abandoned
        )
        # An older one may be taken for one that cannot be read now, when readers lose nothing by it.
        self.require(cheap or not sound, f"checkpoint {entry.id} is passed over, and every byte of it is right")

    def _went_back(self, entry: WentBack, process: Process) -> None:
        self.require(entry.chosen not in self._abandoned, f"the job goes back to {entry.chosen}, which was abandoned")
        self.require(entry.chosen not in self._retired, f"the job goes back to {entry.chosen}, which was retired")
        self._require_sink_was_asked(entry, process)
        again = self._went_to == (entry.asked, entry.chosen)
        self.require(not again, f"the job goes back to {entry.asked} a second time")
        self._went_to = (entry.asked, entry.chosen)
        self.line = entry.sequence
        self._abandoned.update(entry.abandoned)

    def _require_sink_was_asked(self, entry: WentBack, process: Process) -> None:
        """A line is abandoned when the sink can follow: what stands in the way and was there to be seen is refused
        before the entry, not after it. What others did to the table since this run looked, it cannot know."""
        if entry.chosen not in self.completed or process not in self._seen or process in self.may_take_back:
            return  # without a sink, or a person has said that it may be as it is
        table, looked = self._seen[process]
        obstacle = table.obstacle(self.completed[entry.chosen][0].barrier_batch_id)
        seen = looked == (table.id, table.version)
        self.require(not (seen and obstacle), f"the job goes back to {entry.chosen}, and its sink cannot: {obstacle}")

    def is_in_line(self, id: CheckpointId) -> bool:
        return id not in self._passed_over | self._abandoned

    def _named(self, id: CheckpointId, name: str) -> None:
        self.require(id not in self._names, f"checkpoint {id} gets a second name")
        holders = [known for known, given in self._names.items() if given == name and known not in self._retired]
        self.require(not holders, f"savepoint {name} exists twice: {holders} and {id}")
        self._names[id] = name
        self._ever_named.add((id, name))

    def was_named(self, id: CheckpointId, name: str) -> None:
        self.require((id, name) in self._ever_named, f"checkpoint {id} was never savepoint {name}")

    def _checkpoint_completed(self, entry: CheckpointCompleted) -> None:
        counted = entry.requests is not None and entry.requests.put >= 1 and entry.requests.seconds >= 0
        self.require(counted, f"checkpoint {entry.id} does not say what it asked of the home: {entry.requests}")
        self.require(self._started.get(entry.id) == entry.fencing_epoch, f"checkpoint {entry.id} was not started here")
        self.require(entry.id not in self.completed, f"checkpoint {entry.id} completes twice")
        if entry.name is not None:
            self._named(entry.id, entry.name)
        key = manifest_key(entry.manifest)
        if key not in self._disk.objects and self._began[entry.id] < self._home_changed_at:
            return  # an entry that came late, into a home that was put back meanwhile; whoever restores it finds out
        self.require(key in self._disk.objects, f"checkpoint {entry.id} completes without its manifest")
        manifest = decode_manifest(self._manifests[key], entry.manifest)
        if key in self._disk.damaged:
            # No run but its own can know what it names, so that may be uploaded again.
            self._note_useless(entry, manifest)
            self._useless |= {file.key for file in manifest.files()}
            return
        self.require(
            (manifest.checkpoint, manifest.barrier_batch_id) == (entry.id, entry.barrier_batch_id),
            f"the manifest of checkpoint {entry.id} is that of another one",
        )
        self.completed[entry.id] = (entry, manifest)
        self._verify(entry, manifest)
        self._note_useless(entry, manifest)

    def _note_useless(self, entry: CheckpointCompleted, manifest: Manifest) -> None:
        needed: dict[str, dict[str, int]] = {}
        for file in manifest.files():
            if file.pack is not None:
                needed.setdefault(file.key, {})[file.digest] = file.size
        for key, sizes in needed.items():
            if sum(sizes.values()) * 4 < len(self._disk.objects.get(key, b"")):
                self._useless.add(key)
        named = {file.key for file in manifest.files()}
        began = self._began[entry.id]
        self._useless |= {
            key for known in self._stored.values() for key, at in known.items() if at < began and key not in named
        }

    def _checkpoints_retired(self, entry: CheckpointsRetired) -> None:
        for id in entry.ids:
            if id in self.completed:
                _, manifest = self.completed[id]
                self.require(id not in self._names, f"savepoint {id} is retired")
                self._ever_retired |= {file.key for file in manifest.files()}
            self._retired[id] = entry.at
        usable = [id for id in self.completed if id not in self._retired.keys() | self._corrupt | self._abandoned]
        damage = bool(self._corrupt) or self._disk.ever_damaged
        self.require(damage or (bool(usable) and max(usable) > max(entry.ids)), "the newest checkpoint was retired")

    def uploaded(self, key: str, data: bytes, process: Process) -> None:
        if key.startswith("journal/") and self._disk.objects.get(key) == data:
            return  # an upload that took effect late, after it was repeated: nothing changes
        if key.startswith("journal/") and process in self._astray:
            self._require_soon(process, f"repairs {key}")
            self._wrecked = True
            return
        if key.startswith("journal/"):
            known = self._entries.get(int(key[8:28]))
            behind = known is not None and known.sequence > self._folded_upto
            self.require(behind, f"{process.name} brings {key} back though a fold stands for it")
            self.require(known == msgspec.json.decode(data, type=AnyEntry), f"{key} is written with another meaning")
            return
        if key.startswith("folds/"):
            self.require(self._folds.get(key) == data, f"{key} is written with another meaning")
            return
        name = key.rpartition("/")[2].partition(".")[0]
        self.require(digest_of(data) == name, f"{key} is uploaded with other bytes")
        if key.startswith("manifests/"):
            self._manifests[key] = data

    def opened(self, key: str) -> None:
        self.require(not _is_litter(key), f"{key} is read, which is nobody's")

    def lost(self, key: str) -> None:
        """Who uploads it later, and gets no answer, does not know that it is there."""
        for known in self._stored.values():
            known.pop(key, None)

    def deleted(self, key: str, process: Process) -> None:
        self._world.note(f"delete {key}", process)
        self.require(not _is_litter(key), f"{process.name} deletes {key}, which is nobody's")
        if self._strays.get(key) is process:
            return  # what it wrote to a home that is not its own
        self.lost(key)
        if process in self._astray:
            self._require_soon(process, f"deletes {key}")
            self._wrecked = self._wrecked or key.startswith("journal/")
            return
        if key.startswith("journal/"):
            if not self._is_claim_taken_back(int(key[8:28]), process):
                self._entry_deleted(int(key[8:28]))
            return
        if key.startswith("folds/"):
            self.require(int(key[6:26]) < self._folded_upto, f"{process.name} deletes {key}, which the journal needs")
            return
        now = START + timedelta(seconds=self._world.now)
        for id, (entry, manifest) in self.completed.items():
            retired_at = self._retired.get(id)
            if retired_at is not None and (self.grace is None or retired_at + self.grace <= now):
                continue
            needed = key == manifest_key(entry.manifest) or any(file.key == key for file in manifest.files())
            why = f"checkpoint {id} needs" if retired_at is None else f"checkpoint {id} names, in its grace"
            self.require(not needed, f"{process.name} deletes {key}, which {why}")

    def leftovers(self, epoch: int) -> list[str]:
        """Objects of runs before `epoch` that no retained checkpoint names, nor one whose grace is not long over."""
        assert self.grace is not None
        late = START + timedelta(seconds=self._world.now) - self.grace - timedelta(seconds=3.0)
        named: set[str] = set()
        for id, (entry, manifest) in self.completed.items():
            if id not in self._retired or self._retired[id] > late:
                named |= {manifest_key(entry.manifest), *(file.key for file in manifest.files())}
        stored = [key for key in self._disk.objects if key.startswith(("blobs/", "packs/", "manifests/"))]
        stored = [key for key in stored if not is_foreign(key)]
        earlier = [key for key in stored if key.startswith("manifests/") or is_of_earlier_run(key, epoch)]
        return sorted(key for key in earlier if key not in named)

    def _is_claim_taken_back(self, sequence: int, process: Process) -> bool:
        """Whoever claimed a job whose journal has lost entries since it was read takes that back, and nobody can have
        claimed it behind."""
        behind = [n for n in self._entries if n > self._folded_upto]
        broken = any(f"journal/{n:020d}.json" not in self._disk.objects for n in behind)
        claim = self._entries.get(sequence)
        if not (broken and isinstance(claim, RunStarted) and sequence == self._head and self.owned_by(process)):
            return False
        self._head, self._tip, self._place, self._owner = self._before_claims.pop(sequence)
        if self._owner is not None:
            self.has_seen_a_claim.add(self._owner[1])
        del self._entries[sequence], self._newest[process]
        return True

    def _entry_deleted(self, sequence: int) -> None:
        if sequence in self._void:
            del self._void[sequence]
            return
        self.require(sequence <= self._folded_upto, f"entry {sequence} is deleted, and no fold stands for it")
        stored = [int(key[8:28]) for key in self._disk.objects if is_entry(key)]
        before = [other for other in stored if other < sequence and other not in self._void]
        self.require(not before, f"entry {sequence} is deleted before {before[:3]}")

    def _journal_folded(self, entry: JournalFolded) -> None:
        data = self._disk.objects.get(f"folds/{entry.upto:020d}.json")
        self.require(data is not None and digest_of(data) == entry.digest, f"fold {entry.upto} is not there")
        documents = msgspec.json.decode(data or b"{}")["entries"]
        kept = {document["sequence"]: msgspec.convert(document, AnyEntry) for document in documents}
        for sequence in [sequence for sequence in self._entries if sequence <= entry.upto]:
            if sequence in kept:
                self.require(kept[sequence] == self._entries[sequence], f"the fold changes entry {sequence}")
            else:
                self._dropped(sequence)
        self._folded_upto = entry.upto

    def _dropped(self, sequence: int) -> None:
        entry = self._entries.pop(sequence)
        match entry:
            case RunStarted():
                self.require(self._owner is None or entry.fencing_epoch != self._owner[0], "the owner was dropped")
            case CheckpointCompleted():
                self.require(entry.id in self._retired, f"completed checkpoint {entry.id} was trimmed")
                self.require(entry.id < self._last_id, "the highest id was trimmed")
            case SavepointNamed() | SavepointDeleted():
                kept = entry.id in self.completed and entry.id not in self._retired
                self.require(not kept, f"the name of checkpoint {entry.id} was trimmed")
            case WentBack():
                left = [
                    e for e in self._entries.values() if isinstance(e, CheckpointCompleted) and e.id in entry.abandoned
                ]
                self.require(not left, "a line was trimmed that is abandoned, before its checkpoints")
            case CheckpointsRetired():
                left = [e for e in self._entries.values() if isinstance(e, CheckpointCompleted) and e.id in entry.ids]
                self.require(not left, "a retirement was trimmed before what it retires")
            case CheckpointStarted():
                completed = any(isinstance(e, CheckpointCompleted) and e.id == entry.id for e in self._entries.values())
                self.require(entry.id < self._last_id or completed, "the highest id was trimmed")

    # --- uploads ---

    def uploading(self, process: Process, digest: str, copy_began: float) -> None:
        """Before a copy uploads bytes. Bytes that this run stored before the copy began are found, not sent; unless its
        home is not what it was."""
        if process.born < self._home_changed_at:
            return
        known = self._stored.get((process.name, digest), {})
        gone = self._ever_retired | self._useless
        # Of two objects with the same bytes, the run knows one.
        again = known and all(at < copy_began and key in self._disk.objects.keys() - gone for key, at in known.items())
        self.require(not again, f"{digest[:8]} is uploaded again though {min(known, default='')} holds it")

    def stored(self, process: Process, file: ManifestFile) -> None:
        known = self._stored.get((process.name, file.digest), {})
        self._stored[process.name, file.digest] = known | {file.key: self._world.now}

    # --- restoring ---

    def _verify(self, entry: CheckpointCompleted, manifest: Manifest) -> None:
        files = {}
        for file in manifest.files():
            if file.key in self._disk.damaged:
                if packed_range(file.path) is None:
                    return
                continue  # a checkpoint is as good without its plans
            self.require(file.key in self._disk.objects, f"checkpoint {entry.id} lacks {file.key} of {file.path}")
            data = self._disk.objects[file.key][file.offset : file.offset + file.size]
            self.require(digest_of(data) == file.digest, f"checkpoint {entry.id} has wrong bytes for {file.path}")
            files[file.path] = data
        self._ends[entry.id] = int(files[f"offsets/{entry.barrier_batch_id}"])
        problem = self._state_problem(files, entry.barrier_batch_id)
        self.require(problem is None, f"checkpoint {entry.id} restores to a wrong state: {problem}")

    def verify_all(self) -> None:
        for id, (entry, manifest) in self.completed.items():
            if id not in self._retired:
                self._verify(entry, manifest)

    # --- the sink ---

    def saw(self, process: Process, table: Table) -> None:
        self._seen[process] = table, (table.id, table.version)

    def shown(self, table: Table, rows: tuple[int, ...]) -> None:
        back = sorted(table.deleted.intersection(rows))
        self.require(not back, f"rows {back} come back, which somebody deleted on purpose")
        table.holes.difference_update(rows)

    def accepted(self, table: Table, upto: BatchId) -> None:
        """A person lets the sink go on from what is there: what it lacks up to here is not missed, and what it has
        beyond stands there twice later on."""
        for id, (entry, manifest) in self.completed.items():
            if entry.barrier_batch_id == upto and id not in self._ends:
                self._verify(entry, manifest)  # it was damaged when it was completed, and may be repaired since
        ends = [
            end
            for id, end in self._ends.items()
            if self.completed[id][0].barrier_batch_id == upto and id not in self._passed_over | self._abandoned
        ]
        table.holes |= set(range(max(ends, default=0))) - set(table.rows()) - table.deleted
        if ends:
            table.disown(max(ends))

    def taken_back(self, process: Process, table: Table, upto: BatchId | None) -> None:
        """Rows that readers have seen go only when a line of batches was abandoned, or a person said so; and where it
        was abandoned because of damage, only if a batch could not be repeated as it was."""
        self.require(
            not self._could_be_repeated(process, table, upto),
            f"{process.name} takes back what readers saw after batch {upto}, and the plans of all of it are there",
        )
        abandoned = [
            id
            for id in self._passed_over | self._abandoned
            if id in self.completed and (upto is None or self.completed[id][0].barrier_batch_id > upto)
        ]
        # Who is astray may have said so in the home that was there before.
        # What was shown batch by batch behind the newest checkpoint is in none that is abandoned.
        asked = self.shows_batches and self._went_to is not None and self.completed[self._went_to[1]][0]
        abandoned = abandoned or (asked and asked.barrier_batch_id == upto)
        allowed = abandoned or process in self.may_take_back | self._astray.keys() or self._disk.ever_damaged
        self.require(bool(allowed), f"{process.name} takes back what readers saw after batch {upto}, and nobody asked")

    def _could_be_repeated(self, process: Process, table: Table, upto: BatchId | None) -> bool:
        """Whether checkpoints that this run has left behind hold the plans of all that is taken back, and those fit
        what readers see. Not where others have had their hands on home or table."""
        strange = self.may_take_back or self._home_changed_at > 0.0 or self.anybody_astray or self.reads_flip
        if strange or not (self.records_plans and self._owner and self._owner[1] is process and table.published):
            return False
        asked = self._went_to is not None and self.completed[self._went_to[1]][0].barrier_batch_id == upto
        ends = [end for id, end in self._ends.items() if self.completed[id][0].barrier_batch_id == upto]
        if asked or len(set(ends)) != 1:
            return False
        planned, end = self._packed_ends(), ends[0]
        for batch in range((upto or 0) + 1, table.published + 1):
            end += len(table.record.get(BatchId(batch), ()))
            if planned.get(BatchId(batch)) != end:
                return False
        return True

    def _packed_ends(self) -> dict[BatchId, int]:
        """By the plans that can be read, of all checkpoints but those that the job went back behind, and those that
        were passed over before the newest one: readers may have seen other batches since."""
        newest = max((entry.sequence for entry, _ in self.completed.values()), default=0)
        found: dict[BatchId, int] = {}
        for id, (entry, manifest) in self.completed.items():
            if id in self._retired or id in self._abandoned or self._passed_at.get(id, newest) < newest:
                continue
            for file in manifest.files() if self._is_right(manifest_key(entry.manifest)) else entry.packed:
                data = self._disk.objects.get(file.key, b"")[file.offset : file.offset + file.size]
                readable = file.key not in self._disk.denied and digest_of(data) == file.digest
                if packed_range(file.path) is not None and readable:
                    found |= {plan.batch_id: int(plan.offsets) for plan in decode_packed(file.path, data)}
        return found

    def _is_right(self, key: str) -> bool:
        return key in self._disk.objects.keys() - self._disk.damaged - self._disk.denied.keys()

    def published(self, process: Process, table: Table, upto: BatchId | None, epoch: FencingEpoch) -> None:
        self.publications += 1
        table.commits += 1
        self.require(epoch >= table.epoch, f"{process.name} publishes though run {table.epoch} has opened the sink")
        count = self._require_exact(table, upto)
        if upto is None or process in self._astray or table.holes:
            return
        # A run that is being overtaken may show what the newer one has just abandoned and takes back when it opens.
        abandoned = self._passed_over | self._abandoned if self.owned_by(process) else set()
        ends = {
            end
            for id, end in self._ends.items()
            if self.completed[id][0].barrier_batch_id == upto and id not in abandoned
        }
        if self.shows_batches:
            ends |= {end for batch, end in self._planned_ends() if batch == upto}
            if process.born < self._home_changed_at:  # the home lost the plan after its run had put it, and before this
                ends |= {end for batch, end in self._planned_by.get(process, ()) if batch == upto}
        right = count in ends or self._disk.ever_damaged
        self.require(right, f"{count} rows are visible at batch {upto}, checkpoints say {ends}")

    def _planned_ends(self) -> list[tuple[BatchId, int]]:
        """Of every batch that the home has a plan of: how many rows it and those before it have."""
        return [(batch_of(key), int(decode_plan(key, data).offsets)) for key, data in self.plans()]

    def _require_exact(self, table: Table, upto: BatchId | None) -> int:
        """Each row once and in order, but for those that others took out; how many there are with those."""
        rows = table.rows()
        missing = table.deleted | table.holes
        count = len({*rows, *table.deleted})
        end = max({*rows, *table.deleted}, default=-1) + 1
        expected = [row for row in range(end) if row not in missing]
        self.require(rows == expected, f"readers see {_difference(rows, expected)} after batch {upto}")
        return count

    def complete(self, table: Table, end: int) -> None:
        """At the end of a world: readers see every row of the batches that are durable."""
        expected = [row for row in range(end) if row not in table.deleted | table.holes]
        self.require(table.rows() == expected, f"at the end readers see {_difference(table.rows(), expected)}")


def _is_litter(key: str) -> bool:
    return key.startswith(FOLDERS) and is_foreign(key)


def _copied(value: object) -> object:
    return value.copy() if isinstance(value, dict | set) else value


def _shown(entry: AnyEntry) -> str:
    what = type(entry).__name__
    match entry:
        case CheckpointStarted() | CheckpointCompleted():
            return f"{what} {entry.id} batch {entry.barrier_batch_id}"
        case CheckpointFailedEntry():
            return f"{what} {entry.id} {entry.failure.reason}: {entry.failure.message[:60]}"
        case CheckpointsRetired():
            return f"{what} {entry.ids}"
        case CheckpointCorrupt():
            return f"{what} {entry.id}: {entry.detail[:60]}"
        case WentBack():
            return f"{what} to {entry.chosen} ({entry.asked}), abandons {entry.abandoned}"
    return what


def _difference(rows: list[int], expected: list[int]) -> str:
    """Where the rows stop being what they must be."""
    for place, (row, right) in enumerate(zip(rows, expected, strict=False)):
        if row != right:
            return f"row {row} at place {place} of {len(rows)}, not row {right}"
    return f"{len(rows)} rows, not {len(expected)}"
