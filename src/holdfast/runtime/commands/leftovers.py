"""What runs leave in and beside their work directory, how long it stays, and its removal by `holdfast collect`.

holdfast never uses any of it again: it is kept for inspection. Each kind has an age and a limit, so its size is bounded
even when it is never removed by hand.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum

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
from holdfast.workdir.interface import BUILDING, WorkDirectory

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
    place: WorkDirectory
    kind: Kind
    bytes: int
    since: float
    """Unix time."""
    noted_in: WorkDirectory | None = None
    """The folder that has a note about it."""
    wait_s: float = 0.0
    """For how many more seconds it is kept; 0: it may be removed."""


def leftovers(root: WorkDirectory, work: WorkDirectory, lineage: str, now: float) -> tuple[Leftover, ...]:
    """Leftovers of the job whose work directories are in `root`, a folder of `work`. Empty when the marker there
    belongs to another job or is missing, or the place does not answer."""
    try:
        marker = read_marker(root)
        if marker is None or marker.lineage != lineage:
            return ()
        found = [*_stale(work, marker.job), *_set_aside(root), *_half_built(root)]
    except (HoldfastError, OSError) as error:
        log.warning("what earlier runs left in %s is not listed: %s", root.location, error)
        return ()
    return tuple(item for kind in Kind for item in with_waits((each for each in found if each.kind is kind), now))


def left_at_the_sink(
    root: WorkDirectory, run: RunStarted, state: JobState, store: ObjectStore, now: float
) -> tuple[Leftover, ...]:
    """What is staged at the sink of the newest run and no longer needed. Empty unless every ledger could be read: those
    of the work directories in `root`, from which a start may resume, and of every retained checkpoint."""
    try:
        marker = read_marker(root)
        if marker is None or marker.lineage != run.lineage or not run.sink:
            return ()
        named = frozenset(_named_by_directories(root)) | frozenset(_named_by_checkpoints(store, state))
        paths = left_staged(run.sink, SinkContext(marker.job, run.fencing_epoch, run.lineage), named)
        found = [item for path in paths for item in _leftover(work_directory(path), Kind.STAGED)]
    except (HoldfastError, OSError) as error:
        log.debug("staged output at the sink is not listed: %s", error)
        return ()
    return tuple(with_waits(found, now))


def _named_by_directories(root: WorkDirectory) -> Iterator[str]:
    for name in _directories(root, lambda name: _RUN.fullmatch(name) is not None):
        yield from (file.path for batch in ledger.read(root.at(name)) for file in batch.files)


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
    problem = item.place.remove_tree()
    if problem is None and item.noted_in is not None:
        item.noted_in.remove(_note(item.place))
    return problem


def _stale(work: WorkDirectory, job: JobName) -> Iterator[Leftover]:
    wanted = re.compile(rf"{re.escape(job)}\.stale-[0-9a-f]{{1,8}}(-\d+)?")
    for name in _directories(work, lambda name: wanted.fullmatch(name) is not None):
        place = work.at(name)
        if not _is_a_job_of_that_name(place, name):
            yield from _leftover(place, Kind.STALE)


def _is_a_job_of_that_name(place: WorkDirectory, name: str) -> bool:
    try:
        marker = read_marker(place)
    except HoldfastError:
        return False
    return marker is not None and marker.job == name


def _set_aside(root: WorkDirectory) -> Iterator[Leftover]:
    notes = {name for name in root.names() if name.endswith(ASIDE)}
    for name in _directories(root, lambda name: f"{name}{ASIDE}" in notes):
        yield from _leftover(root.at(name), Kind.SET_ASIDE, noted_in=root)


def _half_built(root: WorkDirectory) -> Iterator[Leftover]:
    for name in _directories(root, lambda name: name.startswith(".") and BUILDING in name):
        yield from _leftover(root.at(name), Kind.HALF_BUILT)


def _directories(place: WorkDirectory, wanted: Callable[[str], bool]) -> list[str]:
    """Excludes symbolic links: their targets belong to others."""
    names = sorted(name for name in place.folders() if wanted(name))
    mounted = place.mounted_at
    return names if mounted is None else [name for name in names if not (mounted / name).is_symlink()]


def _leftover(place: WorkDirectory, kind: Kind, noted_in: WorkDirectory | None = None) -> Iterator[Leftover]:
    """Nothing if another process removes it meanwhile."""
    with suppress(FileNotFoundError):
        since = place.changed_at() if noted_in is None else noted_in.changed_at(_note(place))
        yield Leftover(place, kind, _size(place), since, noted_in)


def _note(place: WorkDirectory) -> str:
    return f"{place.location.rpartition('/')[2]}{ASIDE}"


def _size(place: WorkDirectory) -> int:
    """As far as it can be read."""
    total = 0
    with suppress(OSError):
        for file in place.scan():
            total += file.size
    return total
