"""Counts and flushes the files of a micro-batch, which the executors wrote into its own directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError, StorageNotThere
from holdfast.identifiers import BatchId
from holdfast.sinks.committed import Written
from holdfast.sinks.place import require
from holdfast.sinks.protocol import StagedFile
from holdfast.storage.durable import flush

_FLUSHED_AT_ONCE = 16


def staged_files(
    root: Path, directory: Path, written: Written, remember: Callable[[Any], str] = lambda _: ""
) -> tuple[StagedFile, ...]:
    """What the committed tasks wrote below `directory`, flushed to the disk; paths relative to `root`. Deletes files
    without rows, and those that no committed task reported.

    `remember` makes the `stats` of a file from its Parquet footer. Rows that Spark produced, rows in the files and rows
    in the ledger are equal, or the batch fails: no other file can replace a missing one.
    """
    parquet = require("pyarrow.parquet", "files")
    staged, missing = [], []
    for path, size in sorted(written.files.items()):
        if not _is_as_answered(path, size):
            missing.append(path)
            continue
        footer = parquet.read_metadata(path)
        if footer.num_rows > 0:
            relative = path.relative_to(root).as_posix()
            staged.append(StagedFile(relative, size, footer.num_rows, remember(footer)))
    _require_all(directory, written, staged, missing)
    _keep_only(directory, {root / file.path for file in staged})
    if staged:
        _flush_all([*(root / file.path for file in staged), *_folders(root, directory)])
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return tuple(staged)


def require_opened(batch_id: BatchId, sink: str, mark: Path) -> None:
    """Refuse to stage without `mark`, which this run wrote when it opened the place: a mount is missing, or another
    directory replaced it. Files staged there would be hidden once the right directory is back."""
    if not mark.exists():
        raise StorageNotThere(
            f"could not stage batch {batch_id} for {sink}: {mark} is not there, which this run left when it opened the "
            "place; it is not mounted, or was replaced meanwhile",
            hint="mount it, or put it back",
        )


def _is_as_answered(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _keep_only(directory: Path, wanted: set[Path]) -> None:
    """Files of late or repeated tasks would stay as long as the others. A file that appears after this is harmless: no
    ledger names it."""
    for path in directory.rglob("part-*.parquet"):
        if path not in wanted:
            path.unlink(missing_ok=True)


def _require_all(directory: Path, written: Written, staged: list[StagedFile], missing: list[Path]) -> None:
    rows = sum(file.rows for file in staged)
    if rows == written.rows and not missing:
        return
    gone = ""
    if missing:
        gone = f"; {len(missing)} of {len(written.files)} are not there as they were written, {missing[0]} is one"
    raise HoldfastError(
        f"could not stage {directory}: Spark produced {written.rows} rows, its {len(staged)} files there hold {rows}, "
        f"so the ledger would say {rows} and not {written.rows}{gone}",
        hint="do not delete or add files there, and check that driver and executors mount the same directory",
    )


def lost(attempt: str, path: Path) -> HoldfastError:
    return HoldfastError(
        f"could not {attempt}: {path} is neither staged nor published any more",
        hint="someone deleted it: put it back, or go back to a checkpoint before that batch: --from-checkpoint",
    )


def size_of(path: Path) -> int | None:
    """None when there is no such file."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def require_size(attempt: str, path: Path, size: int, staged: StagedFile) -> None:
    if size != staged.size:
        raise HoldfastError(
            f"could not {attempt}: {path} has {size} bytes, it was staged with {staged.size}",
            hint="someone changed it: put it back, or go back to a checkpoint before that batch: --from-checkpoint",
        )


def _folders(root: Path, directory: Path) -> Iterator[Path]:
    """Every folder on the paths of files below `directory`, up to `root`."""
    yield from directory.rglob("*/")
    while directory != root:
        yield directory
        directory = directory.parent
    yield root


def _flush_all(paths: list[Path]) -> None:
    """In parallel: the file system writes them together, and the batch waits for it."""
    with ThreadPoolExecutor(_FLUSHED_AT_ONCE) as pool:
        for _ in pool.map(flush, paths):
            pass
