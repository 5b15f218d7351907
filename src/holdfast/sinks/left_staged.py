"""Finds staged directories that are not needed any more, of a job that does not run: for `holdfast collect`.

The next start discards them too. This is for a job that does not start again, or not soon.
"""

from collections.abc import Iterator, Set
from pathlib import Path

from holdfast.identifiers import FencingEpoch
from holdfast.sinks.delta_log import DeltaLog
from holdfast.sinks.files_layout import FilesLayout, life_of
from holdfast.sinks.place import owner_name
from holdfast.sinks.protocol import SinkContext
from holdfast.storage.durable import storage_errors


def left_staged(described: str, owner: SinkContext, named: Set[str]) -> list[Path]:
    """Directories at the sink with this description that runs up to the owner's staged, and that neither a ledger
    (`named`: paths of files, relative to the place) nor the table's own log names."""
    kind, _, place = described.partition(":")
    if kind not in ("delta", "files") or not Path(place).is_dir():
        return []
    with storage_errors(f"look at what is staged in {described}"):
        if kind == "files":
            return _of_files(Path(place), owner, named)
        return _of_delta(Path(place), owner, named)


def _of_files(place: Path, owner: SinkContext, named: Set[str]) -> list[Path]:
    """Published files are not there any more."""
    layout = FilesLayout(place, owner.job, life_of(owner.lineage))
    kept = {(place / path).parent for path in named}
    staged = [item for item in layout.staged() if item.fencing_epoch <= owner.fencing_epoch]
    return [item.path for item in staged if item.path not in kept]


def _of_delta(place: Path, owner: SinkContext, named: Set[str]) -> list[Path]:
    log = DeltaLog(place)
    table = log.load_if_there()
    if table is None:
        return []
    used = named | {file.path for file in log.live_files(table)} | log.tombstones(table)
    kept = {place.joinpath(*path.split("/")[:3]) for path in used}
    staging = place / f"holdfast-{owner_name(owner)}"
    return [path for path in _batches(staging, owner.fencing_epoch) if path not in kept]


def _batches(staging: Path, upto: FencingEpoch) -> Iterator[Path]:
    for epoch in _directories(staging):
        if epoch.name.isdecimal() and int(epoch.name) <= upto:
            yield from _directories(epoch)


def _directories(folder: Path) -> list[Path]:
    """Without symbolic links: their targets do not belong to the sink."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
