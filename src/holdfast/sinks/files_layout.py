"""Names below a `Files` sink's directory, and the marker files that say what is published.

<path>/<owner>-<batch>-<fencing_epoch>-<unique>-<n>.parquet   visible
<path>/_holdfast/<owner>/                                     readers skip names that start with "_"
    staged/<fencing_epoch>/<batch>-<unique>/part-*.parquet    staged
    published/<fencing_epoch>.json                            marker: what is published, one per run
    schemas/<fencing_epoch>.json                              the columns that each run writes
    trash/                                                    renamed away, soon deleted
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.errors import Corrupt
from holdfast.identifiers import BatchId, FencingEpoch
from holdfast.sinks.durable import write_atomically
from holdfast.sinks.protocol import StagedBatch

HIDDEN = "_holdfast"


class Marker(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run knows to be published. `claim` until it has read what the run before it left."""

    batch_id: BatchId | None = None
    claim: bool = False
    taken_back_by: FencingEpoch | None = None
    """Set while a rewind to `batch_id` is under way: later batches that this run or an older one staged must go."""


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


class FilesLayout:
    def __init__(self, place: Path, owner: str) -> None:
        self.place = place
        self.own = place / HIDDEN / owner
        self.trash = self.own / "trash"
        self._owner = owner
        self._markers = self.own / "published"
        self._schemas = self.own / "schemas"
        self._visible = re.compile(re.escape(owner) + r"-(\d{10,})-(\d+)-\w+-\d{5,}\.parquet")

    def make(self) -> None:
        for folder in (self.own / "staged", self._markers, self._schemas, self.trash):
            folder.mkdir(parents=True, exist_ok=True)

    def staging(self, fencing_epoch: FencingEpoch, batch_id: BatchId, unique: str) -> Path:
        return self.own / "staged" / str(fencing_epoch) / f"{batch_id}-{unique}"

    def moves(self, batch: StagedBatch) -> list[tuple[Path, Path]]:
        """Where each file of a batch is staged and where it becomes visible, the same for every run."""
        return [
            (self.place / file.path, self.place / self._visible_name(batch, file.path, number))
            for number, file in enumerate(batch.files)
        ]

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
            if epoch.isdecimal() and batch.isdecimal():
                yield StagedDirectory(path, BatchId(int(batch)), FencingEpoch(int(epoch)))

    def markers(self) -> dict[FencingEpoch, Marker]:
        """All markers, newest run first."""
        paths = sorted((p for p in self._markers.glob("*.json") if p.stem.isdecimal()), reverse=True)
        return {FencingEpoch(int(path.stem)): _decoded(path) for path in paths}

    def newest_run(self) -> FencingEpoch | None:
        epochs = [int(path.stem) for path in self._markers.glob("*.json") if path.stem.isdecimal()]
        return FencingEpoch(max(epochs)) if epochs else None

    def write_marker(self, fencing_epoch: FencingEpoch, marker: Marker) -> None:
        write_atomically(self._marker(fencing_epoch), msgspec.json.encode(marker))

    def newest_schema(self) -> str | None:
        newest = max(self._schemas.glob("*.json"), default=None)
        return None if newest is None else newest.read_text()

    def write_schema(self, fencing_epoch: FencingEpoch, schema_json: str) -> None:
        write_atomically(self._schemas / _file_name(fencing_epoch), schema_json.encode())

    def forget_runs_before(self, fencing_epoch: FencingEpoch) -> None:
        for folder in (self._markers, self._schemas):
            for path in folder.glob("*.json"):
                if path.name < _file_name(fencing_epoch):
                    path.unlink(missing_ok=True)

    def _marker(self, fencing_epoch: FencingEpoch) -> Path:
        return self._markers / _file_name(fencing_epoch)


def _file_name(fencing_epoch: FencingEpoch) -> str:
    return f"{fencing_epoch:020d}.json"


# Made here: msgspec crashes the process when threads make the decoder of a type at the same time.
_DECODER = msgspec.json.Decoder(Marker)


def _decoded(path: Path) -> Marker:
    try:
        return _DECODER.decode(path.read_bytes())
    except msgspec.DecodeError as error:
        raise Corrupt(f"could not read what was published from {path}: {error}") from error
