"""Names below a `Files` sink's directory, and the marker files that record what is published.

<path>/<job>-<life>-<batch>-<fencing_epoch>-<unique>-<n>.parquet   visible
<path>/_holdfast/<job>/                                            readers skip names that start with "_"
    life.json                                                      whose output is here: the life that may write
    <life>/                                                        one per life of the job, named by its lineage
        staged/<fencing_epoch>/<batch>-<unique>/part-*.parquet     staged
        published/<fencing_epoch>.json                             marker: what is published, one per run
        schemas/<fencing_epoch>.json                               the columns that each run stages
        columns/<fencing_epoch>.json                               the columns that were ever published
        batches/                                                   what each batch made visible, `published_record.py`
        trash/                                                     renamed away, soon deleted

Version 0.1.0 had `<path>/_holdfast/<job>-<life>/` with `staged`, `published`, `schemas` and `trash` in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from blake3 import blake3

from holdfast.errors import Corrupt, NewerFormat
from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks.protocol import StagedBatch, fingerprint
from holdfast.sinks.published_record import NO_PAGE, PublishedRecord
from holdfast.storage.below import below
from holdfast.storage.durable import flush, write_atomically

HIDDEN = "_holdfast"
FORMAT = 2
LIFE_NAME = re.compile(r"[0-9a-f]{8}")
_TAIL = r"-(\d{10,})-(\d+)-\w+-\d{5,}\.parquet"
_STAGED = re.compile(r"staged/(\d+)/(\d+)-(\w+)/[^/]+")


class Folded(msgspec.Struct, frozen=True):
    """The visible files of all batches up to `upto`: only their number and total size are kept."""

    upto: int = -1
    files: int = 0
    size: int = 0


class Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run knows to be published. Just a `claim` until the run has read what the previous run left."""

    batch_id: BatchId | None = None
    claim: bool = False
    taken_back_by: FencingEpoch | None = None
    """Set while a rewind to `batch_id` is in progress: later batches that this run or an older one staged must be
    removed."""
    run: int | None = None
    """Fingerprint of the run's claim; None when it is not known, as in version 0.1.0."""
    record: int = NO_PAGE
    """The newest page of the record of what was published."""
    folded: Folded = Folded()

    @property
    def without_record(self) -> bool:
        """Version 0.1.0 recorded only the newest batch."""
        return self.batch_id is not None and self.record == NO_PAGE and self.folded == Folded()


class Life(msgspec.Struct, frozen=True):
    """Which life of the job may write here."""

    life: int
    """Fingerprint of the lineage."""
    name: str
    """Name of its folder, also part of its file names."""
    format: int = FORMAT

    def __post_init__(self) -> None:
        if self.format > FORMAT:
            raise NewerFormat.of_format("the ledger of a Files sink", self.format, FORMAT)
        if not LIFE_NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not the name of a life")


@dataclass(frozen=True)
class VisibleFile:
    path: Path
    batch_id: BatchId
    fencing_epoch: FencingEpoch


@dataclass(frozen=True)
class StagedDirectory:
    path: Path
    batch_id: BatchId
    fencing_epoch: FencingEpoch


def life_of(lineage: str) -> Life:
    return Life(fingerprint(lineage), blake3(lineage.encode()).hexdigest()[:8])


def current_life(place: Path, job: JobName, lineage: str) -> Life | None:
    """The life whose output is here, None when there is none. Output of 0.1.0 counts as that of `lineage` if
    possible."""
    path = place / HIDDEN / job / "life.json"
    try:
        return _decoded(path, _LIFE)
    except FileNotFoundError:
        names = lives_of(place, job)
    own = life_of(lineage)
    if own.name in names:
        return own
    return Life(int(max(names), 16), max(names)) if names else None


def lives_of(place: Path, job: JobName) -> set[str]:
    """The names of all lives of the job that have opened this place."""
    hidden = place / HIDDEN
    names = {path.parent.parent.name for path in (hidden / job).glob("*/published/*.json")}
    names |= {path.parent.parent.name[len(job) + 1 :] for path in hidden.glob(f"{job}-*/published/*.json")}
    return {name for name in names if LIFE_NAME.fullmatch(name)}


def jobs_at(place: Path) -> set[str]:
    """The names of all jobs that have a ledger here."""
    hidden = place / HIDDEN
    jobs = {path.parent.parent.name for path in hidden.glob("*/*/published") if LIFE_NAME.fullmatch(path.parent.name)}
    before = {path.parent.name.rpartition("-") for path in hidden.glob("*/published")}
    return jobs | {job for job, _, life in before if LIFE_NAME.fullmatch(life)}


def job_of(visible_name: str) -> str | None:
    """The job that made a file visible, by the file's name; None when holdfast does not use such names."""
    match = re.fullmatch(r"(.+)-[0-9a-f]{8}" + _TAIL, visible_name)
    return match[1] if match else None


class FilesLayout:
    """The names of one life of a job."""

    def __init__(self, place: Path, job: JobName, life: Life) -> None:
        self.place = place
        self.life = life
        self._job = place / HIDDEN / job
        self._owner = f"{job}-{life.name}"
        self._before = place / HIDDEN / self._owner
        self._now = self._job / life.name
        in_old_place = not self._now.exists() and (self._before / "published").is_dir()
        self.own = self._before if in_old_place else self._now
        self.trash = self.own / "trash"
        self._markers = self.own / "published"
        self._schemas = self.own / "schemas"
        self._columns = self.own / "columns"
        self._visible = re.compile(re.escape(self._owner) + _TAIL)
        self.record = PublishedRecord(place, JobName(f"{job}/{life.name}"))
        self.record_folder = self._now / "batches"

    def make(self) -> None:
        for folder in (self.own / "staged", self._markers, self._schemas, self._columns, self.trash):
            folder.mkdir(parents=True, exist_ok=True)

    def require_no_links(self, fencing_epoch: FencingEpoch) -> None:
        """Refuse when a folder of this sink is a symbolic link: this process would treat the link's target as its own
        and delete it."""
        own = self.own.relative_to(self.place).as_posix()
        for folder in ("trash", "published", "schemas", "columns", "batches", f"staged/{fencing_epoch}"):
            below(self.place, f"{own}/{folder}")

    def carry_over(self) -> FilesLayout:
        """Rename what 0.1.0 left to the current names."""
        if self.own == self._now:
            return self
        self._job.mkdir(parents=True, exist_ok=True)
        os.rename(self._before, self._now)
        flush(self._job)
        flush(self._job.parent)
        return FilesLayout(self.place, JobName(self._job.name), self.life)

    def write_life(self, unique: str) -> None:
        """Two runs may write it at once, so each uses its own temporary name."""
        temporary = self._job / f".life-{unique}.tmp"
        temporary.write_bytes(msgspec.json.encode(self.life))
        flush(temporary)
        temporary.replace(self._job / "life.json")
        flush(self._job)

    def staging(self, fencing_epoch: FencingEpoch, batch_id: BatchId, unique: str) -> Path:
        return self.own / "staged" / str(fencing_epoch) / f"{batch_id}-{unique}"

    def moves(self, batch: StagedBatch) -> list[tuple[Path, Path]]:
        """Where each file of a batch is staged and where it becomes visible, the same for every run.

        A ledger entry is untrusted input. Its files are moved and their folder is deleted, so it may name only what was
        staged for this batch.
        """
        return [
            (self._source(batch, file.path), self.place / self._visible_name(batch, file.path, number))
            for number, file in enumerate(batch.files)
        ]

    def _source(self, batch: StagedBatch, staged_path: str) -> Path:
        relative = staged_path
        for folder in (self._before, self._now):
            prefix = f"{folder.relative_to(self.place).as_posix()}/"
            if staged_path.startswith(prefix):
                relative = staged_path.removeprefix(prefix)
        match = _STAGED.fullmatch(relative)
        if match is None or (int(match[1]), int(match[2])) != (batch.fencing_epoch, batch.batch_id):
            raise Corrupt(
                f"the ledger entry of batch {batch.batch_id} names {staged_path!r}, which is not what was staged for "
                f"it below {self.own}; nothing was touched",
                hint="resume from an older checkpoint: `holdfast checkpoints` lists them",
            )
        below(self.place, self.own.relative_to(self.place).as_posix())
        return below(self.own, relative)

    def _visible_name(self, batch: StagedBatch, staged_path: str, number: int) -> str:
        unique = Path(staged_path).parent.name.partition("-")[2]
        return f"{self._owner}-{batch.batch_id:010d}-{batch.fencing_epoch}-{unique}-{number:05d}.parquet"

    def visible(self) -> Iterator[VisibleFile]:
        for path in sorted(self.place.iterdir()) if self.place.is_dir() else ():
            if match := self._visible.fullmatch(path.name):
                yield VisibleFile(path, BatchId(int(match[1])), FencingEpoch(int(match[2])))

    def staged(self) -> Iterator[StagedDirectory]:
        for path in sorted((self.own / "staged").glob("*/*-*/")):
            epoch, batch = path.parent.name, path.name.partition("-")[0]
            if epoch.isdecimal() and batch.isdecimal() and not (path.is_symlink() or path.parent.is_symlink()):
                yield StagedDirectory(path, BatchId(int(batch)), FencingEpoch(int(epoch)))

    def markers(self) -> dict[FencingEpoch, Marker]:
        """All markers, newest run first."""
        found = {}
        for epoch, path in sorted(_numbered(self._markers), reverse=True):
            try:
                found[FencingEpoch(epoch)] = _decoded(path, _MARKER)
            except FileNotFoundError:  # a newer run deletes those of older ones
                continue
        return found

    def newest_run(self) -> FencingEpoch | None:
        return max((FencingEpoch(epoch) for epoch, _ in _numbered(self._markers)), default=None)

    def own_marker(self, fencing_epoch: FencingEpoch) -> Marker | None:
        try:
            return _decoded(self.marker_path(fencing_epoch), _MARKER)
        except FileNotFoundError:
            return None

    def write_marker(self, fencing_epoch: FencingEpoch, marker: Marker) -> None:
        write_atomically(self.marker_path(fencing_epoch), msgspec.json.encode(marker))

    def schema_of(self, fencing_epoch: FencingEpoch) -> str | None:
        """The columns that a run staged, None when unknown."""
        try:
            return (self._schemas / _file_name(fencing_epoch)).read_text()
        except FileNotFoundError:
            return None

    def newest_schema(self) -> str | None:
        newest = max(self._schemas.glob("*.json"), default=None)
        return None if newest is None else newest.read_text()

    def write_schema(self, fencing_epoch: FencingEpoch, schema_json: str) -> None:
        write_atomically(self._schemas / _file_name(fencing_epoch), schema_json.encode())

    def columns(self) -> list[str]:
        """Schemas that together contain every column of this life's visible files."""
        return [path.read_text() for _, path in sorted(_numbered(self._columns))]

    def write_columns(self, fencing_epoch: FencingEpoch, schema_json: str) -> None:
        write_atomically(self._columns / _file_name(fencing_epoch), schema_json.encode())

    def forget_runs_before(self, fencing_epoch: FencingEpoch, staged_by: set[FencingEpoch]) -> None:
        for folder in (self._markers, self._schemas):
            for epoch, path in _numbered(folder):
                if epoch < fencing_epoch and not (folder == self._schemas and epoch in staged_by):
                    path.unlink(missing_ok=True)

    def marker_path(self, fencing_epoch: FencingEpoch) -> Path:
        return self._markers / _file_name(fencing_epoch)


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    return [(int(path.stem), path) for path in folder.glob("*.json") if path.stem.isdecimal()]


def _file_name(fencing_epoch: FencingEpoch) -> str:
    return f"{fencing_epoch:020d}.json"


# Created at import: msgspec crashes the process when threads create the decoder of a type at the same time.
_MARKER = msgspec.json.Decoder(Marker)
_LIFE = msgspec.json.Decoder(Life)
_Document = TypeVar("_Document")


def _decoded(path: Path, decoder: msgspec.json.Decoder[_Document]) -> _Document:
    try:
        return decoder.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise Corrupt(f"could not read what was published from {path}: {error}") from error
