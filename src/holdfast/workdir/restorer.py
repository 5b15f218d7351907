"""Builds a Spark checkpoint directory from a checkpoint, or from another directory.

The directory appears complete or not at all: for Spark a directory without `metadata` is a new query, and a state
directory without one of its files is broken.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from blake3 import blake3

from holdfast.checkpoint.layout import SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest, ManifestFile, digest_of
from holdfast.checkpoint.packed_plans import is_packed_plans
from holdfast.checkpoint.relocation import names_places, relocated
from holdfast.errors import Corrupt, HoldfastError, InvalidSettings, ObjectNotFound
from holdfast.job_log import log
from holdfast.storage.below import plain_parts
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import Building, Changed, WorkDirectory
from holdfast.workdir.planned_file import whole

Progress = Callable[[int], None]

_WRITTEN_AT_ONCE = 8
_LARGEST_READ = 16 << 20
_LARGEST_GAP = 1 << 20
"""Reading this many unwanted bytes of a pack is cheaper than a second request."""
_OWN = "ledger/"
"""holdfast's own files are copied and not linked, so that it does not matter how they are written."""


def restore(
    store: ObjectStore,
    manifest: Manifest,
    to: WorkDirectory,
    parallelism: int = 8,
    progress: Progress | None = None,
    *,
    inside: bool = False,
) -> None:
    """Make `to`, which must be absent or empty, the work directory that the checkpoint holds.

    Every byte is proved against the manifest; then the few files that contain the directory's path are rewritten for
    `to`. Raises `Corrupt` when a byte is missing or wrong, and leaves nothing behind. `progress` is called with the
    bytes received, from several threads. Memory stays below `parallelism` times 16 MiB.

    With `inside`, a blob that is in the store of `to`, and still has the version that it had when its bytes were
    proved, is copied there by the store. Then the store's word stands for its bytes, until somebody reads them.
    """
    files = manifest.files()
    _require_inside(files)
    with _appearing(to) as building:
        download = _Download(store, building, to, progress or (lambda size: None), inside=inside)
        _in_parallel([*download.tasks(files)], parallelism)


def take_over(previous: WorkDirectory, plan: SnapshotPlan, to: WorkDirectory) -> None:
    """Make `to` the work directory that `plan` describes, from the files of `previous`, which stays unchanged.

    Raises `Corrupt` when a file is not the planned one.
    """
    with _appearing(to, taking_from=previous) as building:
        for file in plan.files():
            try:
                _take(previous, file, building, to)
            except Changed as error:
                raise Corrupt(f"could not take over {previous.location}/{file.path}: it {error.reason}") from error


def _take(previous: WorkDirectory, file: WorkFile, building: Building, to: WorkDirectory) -> None:
    if not file.path.startswith(_OWN) and not names_places(file.path):
        building.take(file)
        return
    with previous.open_planned(file) as handle:
        data = whole(handle, file)
    building.write(file.path, [_as_at(to, file.path, data)])


def rename(previous: WorkDirectory, to: WorkDirectory) -> None:
    """Rename `previous` to `to`, then rewrite the files that contain its path. If the run dies in between, the next run
    does that."""
    previous.move_to(to)
    for operator in to.names("state"):
        folder = f"state/{operator}/_metadata/v2"
        for name in to.names(folder):
            path = f"{folder}/{name}"
            before = to.read(path)
            if (after := _as_at(to, path, before)) != before:
                to.write_atomic(path, after)


def _as_at(to: WorkDirectory, path: str, data: bytes) -> bytes:
    """The bytes that a file has in `to`."""
    return relocated(data, to.spark_root) if names_places(path) else data


@contextmanager
def _appearing(to: WorkDirectory, taking_from: WorkDirectory | None = None) -> Iterator[Building]:
    """Turns failures into errors that a user can act on."""
    try:
        with to.build(taking_from) as building:
            yield building
    except FileExistsError as error:
        rule = "must be an empty directory, or not exist"
        hint = "name a directory that does not exist yet"
        raise InvalidSettings.of("to", to.location, rule, hint=hint) from error
    except OSError as error:
        raise HoldfastError(
            f"could not write {error.filename or to.location}: {error.strerror or error}",
            hint=f"check the space and the permissions of the place of {to.location}",
        ) from error


def _require_inside(files: Sequence[ManifestFile]) -> None:
    """A damaged or malicious manifest must not write outside the directory, nor overwrite one file with another."""
    seen: set[str] = set()
    for file in files:
        try:
            plain_parts(file.path)
        except Corrupt as error:
            raise Corrupt(f"could not restore {file.path!r}: {error.message}") from error
        if file.size < 0 or file.offset < 0:
            raise Corrupt(f"could not restore {file.path!r}: the manifest gives it a size or a place below zero")
        if file.path in seen:
            raise Corrupt(f"could not restore {file.path!r}: the manifest names it twice")
        seen.add(file.path)
    for path in seen:
        if any(str(folder) in seen for folder in PurePosixPath(path).parents):
            raise Corrupt(f"could not restore {path!r}: the manifest names a file where a directory must be")


def _in_parallel(tasks: Sequence[Callable[[], None]], parallelism: int) -> None:
    """Run the tasks. The first failure cancels tasks that have not started, and is raised."""
    pool = ThreadPoolExecutor(parallelism, thread_name_prefix="restore")
    try:
        done, _ = wait([pool.submit(task) for task in tasks], return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Span:
    """Files of one pack that are read with one request. Ordered by offset."""

    files: tuple[ManifestFile, ...]
    offset: int
    length: int


def spans(files: Sequence[ManifestFile]) -> Iterator[Span]:
    """The requests that read these files of one pack."""
    ordered = sorted(files, key=lambda file: file.offset)
    start = 0
    end = ordered[0].offset + ordered[0].size
    for position, file in enumerate(ordered[1:], 1):
        new_end = max(end, file.offset + file.size)
        if file.offset - end > _LARGEST_GAP or new_end - ordered[start].offset > _LARGEST_READ:
            yield Span(tuple(ordered[start:position]), ordered[start].offset, end - ordered[start].offset)
            start, end = position, file.offset + file.size
        else:
            end = new_end
    yield Span(tuple(ordered[start:]), ordered[start].offset, end - ordered[start].offset)


class _Download:
    def __init__(
        self, store: ObjectStore, building: Building, to: WorkDirectory, progress: Progress, *, inside: bool
    ) -> None:
        self._inside = inside
        self._store = store
        self._building = building
        self._to = to
        self._progress = progress

    def tasks(self, files: Sequence[ManifestFile]) -> Iterator[Callable[[], None]]:
        """Large files first: the last one to finish determines the total time."""
        packs: dict[str, list[ManifestFile]] = {}
        for file in sorted(files, key=lambda file: -file.size):
            if file.pack is None:
                yield lambda file=file: self._blob(file)  # type: ignore[misc]
            else:
                packs.setdefault(file.key, []).append(file)
        for pack in packs.values():
            for span in spans(pack):
                yield lambda span=span: self._span(span)  # type: ignore[misc]

    def _plans(self, file: ManifestFile) -> None:
        try:
            data = b"".join(self._proven(file))
        except (Corrupt, ObjectNotFound) as error:
            log.warning("restored without the plans in %s, which only a recovery needs: %s", file.path, error.message)
            return
        self._building.write(file.path, [data])

    def _blob(self, file: ManifestFile) -> None:
        if is_packed_plans(file.path):
            self._plans(file)
            return
        if self._inside and self._copied_inside(file):
            self._progress(file.size)
            return
        chunks = self._proven(file)
        try:
            if names_places(file.path):
                chunks = iter([_as_at(self._to, file.path, b"".join(chunks))])
            self._building.write(file.path, chunks)
        except ObjectNotFound as error:
            raise _corrupt(file, "missing") from error

    def _copied_inside(self, file: ManifestFile) -> bool:
        if not file.version or names_places(file.path):
            return False
        source = self._store.stored_at(file.key, file.version)
        return source is not None and self._building.copy_inside(file.path, source)

    def _proven(self, file: ManifestFile) -> Iterator[bytes]:
        """Raises at the end unless all bytes were right."""
        hasher = blake3()
        for chunk in self._store.stream(file.key):
            hasher.update(chunk)
            self._progress(len(chunk))
            yield chunk
        if (found := hasher.hexdigest()) != file.digest:
            raise _corrupt(file, found)

    def _span(self, span: Span) -> None:
        first = span.files[0]
        try:
            data = self._store.read(first.key, span.offset, span.length)
        except ObjectNotFound as error:
            raise _corrupt(first, "missing") from error
        if not self._to.abilities.remote:
            for file in span.files:
                self._packed(file, span, data)
            return
        # Each file waits for remote machines, such as the DataNodes of HDFS.
        with ThreadPoolExecutor(_WRITTEN_AT_ONCE) as pool:
            for _ in pool.map(lambda file: self._packed(file, span, data), span.files):
                pass

    def _packed(self, file: ManifestFile, span: Span, data: bytes) -> None:
        start = file.offset - span.offset
        content = data[start : start + file.size]
        if (found := digest_of(content)) != file.digest:
            if is_packed_plans(file.path):
                log.warning("restored without the plans in %s: their bytes are wrong", file.path)
                return
            raise _corrupt(file, found)
        self._building.write(file.path, [_as_at(self._to, file.path, content)])
        self._progress(file.size)


def _corrupt(file: ManifestFile, found: str) -> Corrupt:
    return Corrupt(
        f"could not restore {file.path}: {file.key} should hold bytes with digest {file.digest}, found {found}",
        hint="restore an older checkpoint; `holdfast verify --all` tells which are sound",
    )
