"""From a checkpoint back to a Spark checkpoint directory.

Both ways build the directory beside its place and rename it whole: Spark takes a directory without `metadata` for a new
query, and a state directory with a file missing for a broken one.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from blake3 import blake3

from holdfast.checkpoint.layout import SnapshotPlan, WorkFile
from holdfast.checkpoint.manifest import Manifest, ManifestFile, digest_of
from holdfast.checkpoint.relocation import names_places, relocated
from holdfast.errors import Corrupt, ObjectNotFound
from holdfast.repository.whole_directory import built_whole, built_whole_on_hdfs
from holdfast.storage.below import below, plain_parts
from holdfast.storage.interface import ObjectStore
from holdfast.storage.work_path import WorkPath

Progress = Callable[[int], None]

_FLUSHED_AT_ONCE = 16
_WRITTEN_AT_ONCE = 8
_LARGEST_READ = 16 << 20
_LARGEST_GAP = 1 << 20
"""Reading this many unwanted bytes of a pack is cheaper than a second request."""


def restore(
    store: ObjectStore, manifest: Manifest, to: WorkPath, parallelism: int = 8, progress: Progress | None = None
) -> None:
    """Make `to`, which must be absent or empty, the work directory that the checkpoint holds.

    Every byte is proved against the manifest; then the few files that say where the directory is are made to say `to`.
    Raises `Corrupt` when a byte is missing or wrong, and leaves nothing behind.
    `progress` hears of bytes as they arrive, from several threads. Memory stays below `parallelism` times 16 MiB.
    """
    files = manifest.files()
    _require_inside(files)
    with _built_whole(to) as building, ThreadPoolExecutor(_FLUSHED_AT_ONCE, "flush") as flushing:
        begun: list[Future[None]] = []
        download = _Download(
            store,
            building,
            progress or (lambda size: None),
            on_blob=lambda path: begun.append(flushing.submit(_flush_path, path)),
        )
        for folder in {str(PurePosixPath(file.path).parent) for file in files}:
            (building / folder).mkdir(parents=True, exist_ok=True)
        _in_parallel([*download.tasks(files)], parallelism)
        for file in files:
            if names_places(file.path):
                _relocate(building / file.path, to)
        # Large files go to the disk while others arrive; small ones all at once, in about the time of a few.
        begun += [flushing.submit(_flush_path, building / file.path) for file in files if file.pack is not None]
        for flush in begun:
            flush.result()


def _built_whole(to: WorkPath) -> AbstractContextManager[WorkPath]:
    return built_whole(to) if isinstance(to, Path) else built_whole_on_hdfs(to)


def local_copy(source: Path, plan: SnapshotPlan, to: Path) -> None:
    """Make `to` the work directory that `plan` describes, out of the files of `source` on this machine.

    By hard links where possible. That is safe because Spark replaces files by renaming new ones over them and writes
    SSTs under names that are never used twice: it changes no file in place, so neither directory sees what the other
    one's query does. holdfast's own ledger is copied, so that this does not depend on how the ledger is written. What
    says where the directory is is copied too, and made to say `to`. Hadoop's checksums go along with linked files:
    Spark compares what it reads with them.
    Names are not forced to the disk. After a loss of power the directory may lack some, which is found before it is
    used again, and the home is still there.
    Raises `Corrupt` when a file is not there as planned.
    """
    with built_whole(to, durable=False) as building:
        for folder in {(building / file.path).parent for file in plan.files()}:
            folder.mkdir(parents=True, exist_ok=True)
        for file in plan.files():
            target = building / file.path
            if _link_or_copy(source / file.path, target, file):
                _link_checksum(source / file.path, target)
            if names_places(file.path):
                _relocate(target, to)


def _link_or_copy(path: Path, target: Path, file: WorkFile) -> bool:
    """True when it was linked."""
    try:
        status = path.stat()
        if (status.st_size, status.st_mtime_ns, status.st_ino) != (file.size, file.mtime_ns, file.inode):
            raise Corrupt(f"could not take over {path}: it was replaced after it was looked at")
        if not file.path.startswith("ledger/") and not names_places(file.path) and _linked(path, target):
            return True
        _copy(path, target)
    except FileNotFoundError as error:
        raise Corrupt(f"could not take over {path}: it does not exist any more") from error
    return False


def _link_checksum(path: Path, target: Path) -> None:
    with suppress(FileNotFoundError):
        _linked(path.with_name(f".{path.name}.crc"), target.with_name(f".{target.name}.crc"))


def _linked(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        return False  # another file system, or one without links
    return True


def _relocate(path: WorkPath, root: WorkPath) -> None:
    if not isinstance(path, Path):
        path.write_bytes(relocated(path.read_bytes(), str(root)))
        return
    assert isinstance(root, Path)
    content = relocated(path.read_bytes(), str(root.absolute()))
    with path.open("wb") as write:
        write.write(content)
        _flush(write)


def _copy(path: Path, target: Path) -> None:
    with path.open("rb") as read, target.open("xb") as write:
        shutil.copyfileobj(read, write, 1 << 20)
        _flush(write)


def _require_inside(files: Sequence[ManifestFile]) -> None:
    """A damaged or hostile manifest may not write outside of the directory, nor one file over another."""
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
    """Run the tasks; the first one that fails stops those not begun yet, and its error is raised."""
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
        self, store: ObjectStore, building: WorkPath, progress: Progress, on_blob: Callable[[WorkPath], None]
    ) -> None:
        """`on_blob` hears of each large file that is written and right, from several threads."""
        self._store = store
        self._building = building
        self._progress = progress
        self._on_blob = on_blob

    def tasks(self, files: Sequence[ManifestFile]) -> Iterator[Callable[[], None]]:
        """Large files first: the last one to finish decides how long it all takes."""
        packs: dict[str, list[ManifestFile]] = {}
        for file in sorted(files, key=lambda file: -file.size):
            if file.pack is None:
                yield lambda file=file: self._blob(file)  # type: ignore[misc]
            else:
                packs.setdefault(file.key, []).append(file)
        for pack in packs.values():
            for span in spans(pack):
                yield lambda span=span: self._span(span)  # type: ignore[misc]

    def _blob(self, file: ManifestFile) -> None:
        hasher = blake3()
        with below(self._building, file.path).open("xb") as write:
            try:
                for chunk in self._store.stream(file.key):
                    hasher.update(chunk)
                    write.write(chunk)
                    self._progress(len(chunk))
            except ObjectNotFound as error:
                raise _corrupt(file, "missing") from error
        if (found := hasher.hexdigest()) != file.digest:
            raise _corrupt(file, found)
        self._on_blob(self._building / file.path)

    def _span(self, span: Span) -> None:
        first = span.files[0]
        try:
            data = self._store.read(first.key, span.offset, span.length)
        except ObjectNotFound as error:
            raise _corrupt(first, "missing") from error
        if isinstance(self._building, Path):
            for file in span.files:
                self._packed(file, span, data)
            return
        # A file on HDFS waits for several machines, one after the other.
        with ThreadPoolExecutor(_WRITTEN_AT_ONCE) as pool:
            for _ in pool.map(lambda file: self._packed(file, span, data), span.files):
                pass

    def _packed(self, file: ManifestFile, span: Span, data: bytes) -> None:
        start = file.offset - span.offset
        content = data[start : start + file.size]
        if (found := digest_of(content)) != file.digest:
            raise _corrupt(file, found)
        with below(self._building, file.path).open("xb") as write:
            write.write(content)
        self._progress(file.size)


def _flush(write: BinaryIO) -> None:
    write.flush()
    os.fsync(write.fileno())


def _flush_path(path: WorkPath) -> None:
    if not isinstance(path, Path):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _corrupt(file: ManifestFile, found: str) -> Corrupt:
    return Corrupt(
        f"could not restore {file.path}: {file.key} should hold bytes with digest {file.digest}, found {found}",
        hint="restore an older checkpoint; `holdfast verify --all` tells which are sound",
    )
