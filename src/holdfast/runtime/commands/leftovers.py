"""What runs leave beside their work directory on this host, how long it stays, and its removal by `holdfast collect`.

holdfast never uses any of it again: it is kept for inspection. Each kind has an age and a limit, so its size is bounded
even when it is never removed by hand.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.identifiers import JobName
from holdfast.job_log import log
from holdfast.repository.damage import load_manifest
from holdfast.repository.entries import RunStarted
from holdfast.repository.state import JobState
from holdfast.runtime.job_folder import ASIDE
from holdfast.runtime.work_marker import read_marker
from holdfast.sinks import ledger
from holdfast.sinks.left_staged import left_staged
from holdfast.sinks.protocol import SinkContext
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import BUILDING

DAY_S = 86_400.0
_RUN = re.compile(r"\d+-\d+")
NEWEST_KEPT = 3


class Kind(StrEnum):
    STALE = "stale"
    """A work directory of another lineage of the job, set aside by `--new-life`."""
    SET_ASIDE = "set aside"
    """A directory that Spark could not read, with the reason in a note beside it."""
    HALF_BUILT = "half-built"
    """A restore that was killed."""
    STAGED = "staged"
    """Output of attempts that failed, which no checkpoint and no work directory references."""


KEPT_S = {Kind.STALE: 7 * DAY_S, Kind.SET_ASIDE: 7 * DAY_S, Kind.HALF_BUILT: DAY_S, Kind.STAGED: DAY_S}
_NO_LIMIT = (Kind.HALF_BUILT, Kind.STAGED)
"""Only its age shows whether a running process may still be writing it."""


@dataclass(frozen=True)
class Leftover:
    path: Path
    kind: Kind
    bytes: int
    since: float
    """Unix time."""
    wait_s: float = 0.0
    """For how many more seconds it is kept; 0: it may be removed."""


def leftovers(root: Path, lineage: str, now: float) -> tuple[Leftover, ...]:
    """Leftovers of the job whose work directories are in `root`. Empty when the marker there belongs to another job, or
    is missing."""
    try:
        marker = read_marker(work_directory(root))
    except HoldfastError:
        return ()
    if marker is None or marker.lineage != lineage:
        return ()
    found = [*_stale(root, marker.job), *_set_aside(root), *_half_built(root)]
    return tuple(item for kind in Kind for item in with_waits((each for each in found if each.kind is kind), now))


def left_at_the_sink(
    root: Path, run: RunStarted, state: JobState, store: ObjectStore, now: float
) -> tuple[Leftover, ...]:
    """What is staged at the sink of the newest run and no longer needed. Empty unless every ledger could be read: those
    of the work directories in `root`, from which a start may resume, and of every retained checkpoint."""
    try:
        marker = read_marker(work_directory(root))
        if marker is None or marker.lineage != run.lineage or not run.sink:
            return ()
        named = frozenset(_named_by_directories(root)) | frozenset(_named_by_checkpoints(store, state))
        paths = left_staged(run.sink, SinkContext(marker.job, run.fencing_epoch, run.lineage), named)
    except HoldfastError as error:
        log.debug("staged output at the sink is not listed: %s", error.message)
        return ()
    return tuple(with_waits((_leftover(path, Kind.STAGED, path) for path in paths), now))


def _named_by_directories(root: Path) -> Iterator[str]:
    for path in _directories(root, lambda name: _RUN.fullmatch(name) is not None):
        yield from (file.path for batch in ledger.read(work_directory(path)) for file in batch.files)


def _named_by_checkpoints(store: ObjectStore, state: JobState) -> Iterator[str]:
    for entry in state.retained():
        for file in load_manifest(store, entry).files():
            if file.path.startswith(f"{ledger.FOLDER}/"):
                staged = ledger.decoded(store.read(file.key, file.offset, file.size), file.path)
                yield from (each.path for each in staged.files)


def with_waits(found: Iterable[Leftover], now: float) -> Iterator[Leftover]:
    """All of one kind, newest first: the newest few are kept until they are old, the others may be removed."""
    for number, item in enumerate(sorted(found, key=lambda item: item.since, reverse=True)):
        left = KEPT_S[item.kind] - (now - item.since)
        kept = left > 0 and (number < NEWEST_KEPT or item.kind in _NO_LIMIT)
        yield replace(item, wait_s=left if kept else 0.0)


def remove(item: Leftover) -> str | None:
    """Why it could not be removed, None when it was."""
    problems: list[str] = []
    shutil.rmtree(item.path, onerror=lambda function, path, info: problems.append(f"{path}: {info[1]}"))
    if item.path.exists():
        return problems[0] if problems else f"{item.path} still exists"
    if item.kind is Kind.SET_ASIDE:
        item.path.with_name(item.path.name + ASIDE).unlink(missing_ok=True)
    return None


def _stale(root: Path, job: JobName) -> Iterator[Leftover]:
    name = re.compile(rf"{re.escape(job)}\.stale-[0-9a-f]{{1,8}}(-\d+)?")
    for path in _directories(root.parent, lambda entry: name.fullmatch(entry) is not None):
        if not _is_a_job_of_that_name(path):
            yield _leftover(path, Kind.STALE, path)


def _is_a_job_of_that_name(path: Path) -> bool:
    try:
        marker = read_marker(work_directory(path))
    except HoldfastError:
        return False
    return marker is not None and marker.job == path.name


def _set_aside(root: Path) -> Iterator[Leftover]:
    for path in _directories(root, lambda name: (root / f"{name}{ASIDE}").is_file()):
        yield _leftover(path, Kind.SET_ASIDE, path.with_name(path.name + ASIDE))


def _half_built(root: Path) -> Iterator[Leftover]:
    for path in _directories(root, lambda name: name.startswith(".") and BUILDING in name):
        yield _leftover(path, Kind.HALF_BUILT, path)


def _directories(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Excludes symbolic links: their targets belong to others."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and wanted(entry.name)]
    yield from (folder / name for name in sorted(names))


def _leftover(path: Path, kind: Kind, dated: Path) -> Leftover:
    """A rename changes the inode's time, not that of the contents."""
    status = dated.stat()
    return Leftover(path, kind, _size(path), max(status.st_mtime, status.st_ctime))


def _size(path: Path) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return total
