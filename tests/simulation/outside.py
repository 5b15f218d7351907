"""The world outside: a table, a home and machines that others handle, and that are not what the last run left.

What happens is drawn apart from everything else, so that a seed whose world is left alone keeps its history. Each kind
of trouble has a name by which a world can be made to stress it. An *incident* is trouble that only a person can mend:
there is one at a time, and it says what the person may do besides what the product's own hint says.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import msgspec

from holdfast.identifiers import Digest
from holdfast.repository import recent
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.entry_bytes import StoredEntry, decode_fold, encode_fold, stored_entry
from holdfast.repository.names import FOLDERS, is_blob_or_pack, is_entry, is_foreign, is_plan
from tests.simulation.copies import OtherHome
from tests.simulation.world import Process

if TYPE_CHECKING:
    from tests.simulation.checkers import Memory
    from tests.simulation.runs import Scene
    from tests.simulation.store import Disk, Faults

ENABLED: frozenset[str] = frozenset(
    {
        "table_restored", "table_rolled_back", "table_emptied", "table_replaced", "table_compacted",
        "table_deleted_from", "table_appended_to",
        "home_emptied", "home_rolled_back", "home_swapped", "home_away", "journal_expires", "blobs_expire", "denied",
        "stray", "stray_spell", "gateway", "copied", "skew", "io_errors", "own_writer", "vanishing", "short",
    }
)  # fmt: skip
"""What the outside world does by default: that for which the product has a rule."""


FOR_EVER = 1e9
_PREFIXES = ("journal/", "manifests/", "blobs/", "packs/")


@dataclass
class Outside:
    """Probabilities per step of the outside world, about two in three seconds; 0 for what it leaves alone."""

    # The table. What is above the line is a conflict, what is below is everybody's right.
    table_restored: float = 0.0
    """`RESTORE TABLE`: the rows of an older version, the transaction ids of the newest."""
    table_rolled_back: float = 0.0
    """Replaced by an older copy of its files, ids included."""
    table_emptied: float = 0.0
    table_replaced: float = 0.0

    table_compacted: float = 0.0
    table_deleted_from: float = 0.0
    table_appended_to: float = 0.0

    # The home.
    home_emptied: float = 0.0
    home_rolled_back: float = 0.0
    home_swapped: float = 0.0
    home_away: float = 0.0
    """Not mounted, for seconds: an empty place stands there."""
    journal_expires: float = 0.0
    """A lifecycle rule deletes its oldest entries."""
    blobs_expire: float = 0.0
    denied: float = 0.0
    """An object answers 403, for a while or for ever."""

    # What its answers are worth.
    stray: float = 0.0
    stray_spell: float = 0.0
    gateway: float = 0.0

    copied: float = 0.0
    """The job is copied to another home, again and again."""

    # Machines.
    skew: float = 0.0
    """Whether clocks differ between hosts, by minutes."""
    io_errors: float = 0.0
    """A disk that cannot be read for seconds."""
    vanishing: float = 0.0
    """An executor sees another disk, or somebody tidies up: a staged file is gone before it is listed."""
    short: float = 0.0
    """A read gives fewer bytes than the object has, as HDFS does for a file just closed."""
    own_writer: float = 0.0
    """Whether the query brings a writer of its own, which skips batch ids that it has seen."""

    @classmethod
    def drawn(cls, draw: random.Random, enabled: frozenset[str] = ENABLED) -> Outside:
        outside = cls()
        kinds = sorted(enabled & {item.name for item in fields(cls)})
        if kinds and draw.random() < 0.6:
            for name in draw.sample(kinds, k=min(len(kinds), draw.choice((1, 1, 2)))):
                setattr(outside, name, 0.02 + 0.2 * draw.random())
        return outside

    def put_into(self, faults: Faults, draw: random.Random, duration: float) -> None:
        """Those that the store itself brings about."""
        if self.stray:
            faults.stray = 0.04 * draw.random()
        if self.stray_spell:
            begins = [draw.random() * duration for _ in range(4)]
            faults.stray_spells = tuple(
                (begin, begin + 0.2 + draw.random() * 2.0, draw.choice(("", *_PREFIXES))) for begin in begins
            )
        if self.gateway:
            faults.gateway = 0.1 * draw.random()
        if self.vanishing:
            faults.vanishing = 0.1 * draw.random()
        if self.short:
            faults.short = 0.05 * draw.random()

    @property
    def any(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self))

    def stop(self) -> None:
        for item in fields(self):
            setattr(self, item.name, 0.0)


KINDS = frozenset(item.name for item in fields(Outside))


@dataclass
class Incident:
    what: str
    put_back: Callable[[], None]
    """Makes it as if nothing had happened, when everybody is stopped."""
    passes: bool = False
    """By itself."""
    overtaken: Callable[[], bool] = lambda: False
    """Whether others have gone on since: nobody puts anything back then."""


@dataclass
class Backup:
    """A copy of the home at one moment."""

    objects: dict[str, bytes]
    damaged: set[str]
    trimmed: set[str]
    memory: Memory

    @classmethod
    def of(cls, scene: Scene) -> Backup:
        disk = scene.disk
        return cls(dict(disk.objects), set(disk.damaged), set(disk.trimmed), scene.checkers.memory())

    def mounted_at(self, disk: Disk) -> None:
        disk.objects, disk.damaged, disk.trimmed = dict(self.objects), set(self.damaged), set(self.trimmed)


@dataclass
class Outsider:
    """Everybody who is not holdfast, in one task."""

    scene: Scene
    incident: Incident | None = None
    backups: list[Backup] = field(default_factory=list)
    incidents: int = 0
    other_home: OtherHome = field(default_factory=OtherHome)
    older_copies: list[bytes] = field(default_factory=list)
    planted: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(f"outsider {self.scene.world.seed}")
        self.losses = random.Random(f"losses {self.scene.world.seed}")
        self.tidying = random.Random(f"tidying {self.scene.world.seed}")
        self.plants = random.Random(f"plants {self.scene.world.seed}")
        self.litter = random.Random(f"litter {self.scene.world.seed}")
        self.process = Process("outside")

    def begin(self) -> None:
        if self.scene.outside.any or self.scene.copies_planted or self.scene.litter or self.scene.staged_lost:
            self.scene.world.spawn(self.process, "outside", self._live)

    def _live(self) -> None:
        world = self.scene.world
        while True:
            world.sleep(0.5 + self.random.random() * 2.0)
            if self.scene.outside.home_rolled_back and self.random.random() < 0.4 and self.incident is None:
                self.backups.append(Backup.of(self.scene))
            if self.scene.outside.table_rolled_back and self.random.random() < 0.4:
                self.scene.table.back_up()
            for name, act in _ACTS.items():
                probability = getattr(self.scene.outside, name)
                if probability and self.random.random() < probability:
                    act(self)
            if self.losses.random() < self.scene.plans_lost:
                self.lose_plan()
            if self.tidying.random() < self.scene.staged_lost:
                self.lose_staged()
            if self.plants.random() < self.scene.copies_planted:
                self.plant_copies()
            if self.litter.random() < self.scene.litter:
                self.leave_litter()

    # --- the table ---

    def restore_table(self) -> None:
        table = self.scene.table
        versions = [version for version in table.versions if version.id == table.id]
        if versions:
            self._with_table("table restored", lambda: table.restore(self.random.choice(versions)))

    def roll_table_back(self) -> None:
        table = self.scene.table
        if table.copies:
            self._with_table("table rolled back", lambda: table.roll_back(self.random.choice(table.copies)))

    def empty_table(self) -> None:
        self._with_table("table emptied", self.scene.table.empty)

    def replace_table(self) -> None:
        self._with_table("table replaced", self.scene.table.replace)

    def _with_table(self, what: str, act: Callable[[], None]) -> None:
        table = self.scene.table
        if self.incident is not None or not table.visible:
            return
        before = table.copy()

        def put_back() -> None:
            table.roll_back(before)
            table.staged = before.staged | table.staged

        self._happens(what, put_back)
        act()
        assert self.incident is not None
        after = table.commits
        self.incident.overtaken = lambda: table.commits > after

    def compact_table(self) -> None:
        if self.scene.table.visible:
            self._note("compacts the table")
            self.scene.table.compact()

    def delete_rows(self) -> None:
        rows = self.scene.table.rows()
        if rows:
            gone = {self.random.choice(rows) for _ in range(2)}
            self._note(f"deletes rows {sorted(gone)}")
            self.scene.table.delete(gone)

    def append_rows(self) -> None:
        if self.scene.table.visible:
            self._note("appends rows")
            self.scene.table.append_foreign()

    # --- the home ---

    def empty_home(self) -> None:
        if self._home_can_change():
            before = Backup.of(self.scene)
            self._happens("home emptied", lambda: self._mount(before))
            self._mount(Backup({}, set(), set(), self.scene.checkers.no_memory()))

    def roll_home_back(self) -> None:
        if self._home_can_change() and self.backups:
            before = Backup.of(self.scene)
            self._happens("home rolled back", lambda: self._mount(before))
            self._mount(self.random.choice(self.backups))

    def swap_home(self) -> None:
        """With that of another life of the same job, which has run and ended."""
        if not self._home_can_change():
            return
        # Before it is mounted: a run that does not know yet would write into the midst of that life.
        other = self.scene.other_life(self.process)
        if self._home_can_change():
            before = Backup.of(self.scene)
            self._happens("home swapped", lambda: self._mount(before))
            self._mount(other)

    def take_home_away(self) -> None:
        if not self._home_can_change():
            return
        before = Backup.of(self.scene)
        self._happens("home away", lambda: None)
        assert self.incident is not None
        self.incident.passes = True
        self._mount(Backup({}, set(), set(), self.scene.checkers.no_memory()))
        self.scene.disk.away_since = self.scene.world.now
        self.scene.world.sleep(0.2 + self.random.random() * 5.0)
        self._note("the home is there again")
        self.scene.disk.away_since = None
        self._mount(before)
        self.incident = None

    def _home_can_change(self) -> bool:
        return self.incident is None and bool(self.scene.disk.objects) and bool(self.scene.checkers.completed)

    def _mount(self, backup: Backup) -> None:
        backup.mounted_at(self.scene.disk)
        self.scene.checkers.home_changed(backup.memory)

    def expire_journal(self) -> None:
        """The rule knows ages and nothing else; it takes the oldest."""
        disk = self.scene.disk
        keys = sorted(key for key in disk.objects if is_entry(key))
        if self.incident is None and len(keys) > 12:
            lost = {key: disk.objects[key] for key in keys[: self.random.randrange(1, 6)]}

            def put_back() -> None:
                disk.objects.update(lost)
                self.scene.checkers.expired = frozenset()

            self._happens("journal expires", put_back)
            self.scene.checkers.expired = frozenset(lost)
            for key in lost:
                del disk.objects[key]

    def expire_blobs(self) -> None:
        disk = self.scene.disk
        keys = sorted(key for key in disk.objects if is_blob_or_pack(key))
        if keys:
            key = self.random.choice(keys[: len(keys) // 2 + 1])
            self._note(f"a lifecycle rule deletes {key}")
            disk.damage(key, None)
            self.scene.checkers.lost(key)

    def lose_plan(self) -> None:
        """One that later ones follow. What the writer is about to get is not among them."""
        disk = self.scene.disk
        keys = sorted(key for key in disk.objects if is_plan(key))[:-2]
        if self.incident is None and keys:
            key = self.losses.choice(keys)
            lost = disk.objects.pop(key)
            self._happens(f"{key} is lost", lambda: disk.objects.update({key: lost}))

    def lose_staged(self) -> None:
        """All of it, while nobody runs: what a run finds gone when it publishes is a matter of each sink."""
        table = self.scene.table
        if self.incident is None and table.staged and not any(run.alive for run in self.scene.runs):
            lost, table.staged = table.staged, {}
            self._happens("what is staged is tidied away", lambda: table.staged.update(lost))

    def plant_copies(self) -> None:
        """No incident: what holdfast does must not depend on them."""
        disk = self.scene.disk
        data = disk.objects.pop(recent.KEY, None)
        if data is None:
            return
        if recent.KEY not in disk.damaged and data not in self.planted:
            self.older_copies.append(data)
        what = self.plants.choice(("gone", "cut off", "older", "forged", "forged"))
        if what == "cut off":
            self._plant(data[: self.plants.randrange(len(data))])
        elif what == "older" and self.older_copies:
            self._plant(self.plants.choice(self.older_copies))
        elif what == "forged" and self.older_copies:
            self._plant(_forged(self.older_copies[-1]))
        self._note(f"copies of entries: {what}")

    def leave_litter(self) -> None:
        """What file systems, editors and copies that were cut off leave beside what is holdfast's."""
        disk = self.scene.disk
        keys = sorted(key for key in disk.objects if key.startswith(FOLDERS) and not is_foreign(key))
        if not keys:
            return
        key = self.litter.choice(keys)
        folder = key.rpartition("/")[0]
        name = self.litter.choice((f"{key}~", f"{key}.part", f"{folder}/.nfs000000000000c0de", f"{folder}/.DS_Store"))
        data = disk.objects[key]
        disk.objects[name] = data[: self.litter.randrange(len(data) + 1)] if name.endswith(".part") else data
        self._note(f"leaves {name}")

    def _plant(self, data: bytes) -> None:
        self.scene.disk.objects[recent.KEY] = data
        self.planted.add(data)

    def deny(self) -> None:
        disk = self.scene.disk
        keys = sorted(key for key in disk.objects if key.startswith(("blobs/", "packs/", "manifests/")))
        if keys:
            key = self.random.choice(keys)
            ends = self.scene.world.now + self.random.choice((2.0, 8.0, FOR_EVER))
            if ends > FOR_EVER and self.incident is None:
                self._happens(f"{key} answers 403 for ever", disk.denied.clear)
                disk.denied[key] = ends
            elif ends < FOR_EVER:
                self._note(f"{key} answers 403 until {ends:.0f}")
                disk.denied[key] = ends

    def copy_home(self) -> None:
        if self.incident is None and self.scene.checkers.completed:
            self._note("copies the job to another home")
            problem = self.other_home.copied(self.scene.disk.objects)
            self.scene.checkers.require(problem is None, f"the copy is another job: {problem}")

    # --- machines ---

    def break_disk(self) -> None:
        host = self.random.choice(self.scene.hosts)
        host.unreadable_until = self.scene.world.now + self.random.random() * 8.0
        self._note(f"the disk of {host.name} cannot be read until {host.unreadable_until:.1f}")

    # --- telling ---

    def _happens(self, what: str, put_back: Callable[[], None]) -> None:
        self.incidents += 1
        self.incident = Incident(what, put_back)
        self._note(f"INCIDENT: {what}")

    def _note(self, what: str) -> None:
        self.scene.world.note(what, self.process)


def _forged(data: bytes) -> bytes:
    """Another history of the same lengths: each entry has its checksum and names the one before, and every checkpoint
    has a manifest that never was."""
    forged: list[StoredEntry] = []
    for stored in decode_fold(recent.KEY, gzip.decompress(data)):
        entry = stored.entry
        if isinstance(entry, CheckpointCompleted):
            entry = msgspec.structs.replace(entry, manifest=Digest(entry.manifest[::-1]))
        if forged:
            entry = msgspec.structs.replace(entry, previous_digest=forged[-1].digest)
        forged.append(stored_entry(entry))
    return gzip.compress(encode_fold(forged[-1].sequence, forged))


_ACTS: dict[str, Callable[[Outsider], None]] = {
    "table_restored": Outsider.restore_table,
    "table_rolled_back": Outsider.roll_table_back,
    "table_emptied": Outsider.empty_table,
    "table_replaced": Outsider.replace_table,
    "table_compacted": Outsider.compact_table,
    "table_deleted_from": Outsider.delete_rows,
    "table_appended_to": Outsider.append_rows,
    "home_emptied": Outsider.empty_home,
    "home_rolled_back": Outsider.roll_home_back,
    "home_swapped": Outsider.swap_home,
    "home_away": Outsider.take_home_away,
    "journal_expires": Outsider.expire_journal,
    "blobs_expire": Outsider.expire_blobs,
    "denied": Outsider.deny,
    "copied": Outsider.copy_home,
    "io_errors": Outsider.break_disk,
}
