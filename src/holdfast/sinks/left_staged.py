"""Finds staged directories that are not needed any more, of a job that does not run: for `holdfast collect`.

The next start discards them too. This is for a job that does not start again, or not soon.
"""

from collections.abc import Set
from pathlib import Path

from holdfast.sinks.delta_log import DeltaLog
from holdfast.sinks.delta_place import batch_directory, directories_of_batches, staging_folder
from holdfast.sinks.files_layout import FilesLayout, life_of
from holdfast.sinks.protocol import SinkContext
from holdfast.storage.durable import storage_errors


def left_staged(described: str, owner: SinkContext, named: Set[str]) -> list[Path]:
    """Directories that the owner's run or an older one staged at the sink with this description, and that neither a
    ledger (`named`: paths of files, relative to the place) nor the table's own log names."""
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
    kept = {batch_directory(place, path) for path in used}
    staged = directories_of_batches(place / staging_folder(owner), owner.fencing_epoch)
    return [path for path in staged if path not in kept]
