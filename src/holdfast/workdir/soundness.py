"""Checks whether a query can resume from a work directory, in less time than Spark needs to load it.

Every file of the newest barrier must exist, be non-empty, and have the length given by its checksum and by the archive
that names it. The query's id, its offsets and the commit must be readable. Files below 1 MiB are read and compared with
their checksums. Larger files hold nearly all of the bytes: only the ends of SSTs are read. Spark reads them completely
when it loads the state, and compares them with the same checksums; a query that fails there resumes from another
directory (`runtime/query/supervision.py`).

A place that verifies reads, such as HDFS, compares every byte with its own checksums and has replicas: there it is
enough that all files exist, are non-empty, and are readable.
"""

import errno
import io
import zipfile
from collections.abc import Callable

from holdfast.checkpoint.layout import NotPlannable, SnapshotPlan, WorkFile
from holdfast.checkpoint.source_logs import missing_entry
from holdfast.checkpoint.spark_files import NotUnderstood, read_offsets, require_log_entry, require_metadata
from holdfast.workdir.barriers import newest_barrier, plan, referenced_files
from holdfast.workdir.hadoop_checksum import checksum_name, fits_length, matches_checksum
from holdfast.workdir.interface import WorkDirectory

_READ_BELOW = 1 << 20
_TABLE_MAGIC = (bytes.fromhex("f7cff485b741e288"), bytes.fromhex("57fb808b247547db"))
"""The last bytes of a RocksDB table."""

_ON_DISK = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.EBADMSG, errno.EUCLEAN}
"""A file does not exist, or the disk cannot read it."""


def damage(directory: WorkDirectory) -> str | None:
    """Why no query can resume from this directory at its newest commit; None when no damage is found.

    Raises `OSError` when it cannot check now: no file handle is left, only another user may read the files, HDFS does
    not answer. That does not mean damage.
    """
    barrier = newest_barrier(directory)
    if barrier is None:
        return "no batch was committed"
    try:
        _require_sound(directory, plan(directory, barrier))
    except (NotPlannable, _Damaged) as error:
        return str(error)
    except OSError as error:
        if error.errno not in ({errno.ENOENT} if directory.abilities.verifies_reads else _ON_DISK):
            raise
        return f"{error.filename or directory.location} could not be read: {error.strerror or error}"
    return None


class _Damaged(Exception):
    pass


def _require_sound(directory: WorkDirectory, planned: SnapshotPlan) -> None:
    offsets = directory.read(f"offsets/{planned.barrier}")
    if (missing := missing_entry(offsets, {file.path for file in planned.files()})) is not None:
        raise _Damaged(f"{missing} does not exist: the source would be read again from there")
    _require_understood(directory, planned)
    for file in planned.files():
        if file.size == 0:
            # Spark writes no empty files; a power loss leaves them.
            raise _Damaged(f"{file.path} is empty")
        if not directory.abilities.verifies_reads:
            _require_bytes(directory, file)


def _require_bytes(directory: WorkDirectory, file: WorkFile) -> None:
    folder, _, name = file.path.rpartition("/")
    checks = matches_checksum if file.size < _READ_BELOW else fits_length
    if not checks(directory, file.path):
        raise _Damaged(f"{file.path} does not match its checksum in {checksum_name(name)}")
    if name.endswith(".sst"):
        _require_table(directory, file)
    elif name.endswith(".zip"):
        _require_archive(directory, folder, file.path)


def _require_understood(directory: WorkDirectory, planned: SnapshotPlan) -> None:
    """Spark reads these first, and fails without naming the file if it cannot parse one."""
    understand: dict[str, Callable[[bytes], object]] = {"metadata": require_metadata}
    for batch in (planned.barrier, planned.barrier - 1):
        understand[f"offsets/{batch}"] = read_offsets
        understand[f"commits/{batch}"] = require_log_entry
    for file in planned.shards[0].files:
        if file.path in understand:
            try:
                understand[file.path](directory.read(file.path))
            except NotUnderstood as error:
                raise _Damaged(f"{file.path} could not be understood: {error}") from error


def _require_table(directory: WorkDirectory, file: WorkFile) -> None:
    length = len(_TABLE_MAGIC[0])
    with directory.open(file.path) as table:
        table.seek(max(0, file.size - length))
        if (found := table.read(length)) not in _TABLE_MAGIC:
            raise _Damaged(f"{file.path} ends in {found.hex()}, which is not the magic number of a RocksDB table")


def _require_archive(directory: WorkDirectory, store: str, path: str) -> None:
    archive = directory.read(path)
    for name, size in referenced_files(archive, path).items():
        found = directory.stat(f"{store}/{'logs' if name.endswith('.log') else 'SSTs'}/{name}").size
        if size not in (-1, found):
            raise _Damaged(f"{name} has {found} bytes, {path} says {size}")
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            broken = opened.testzip()
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise _Damaged(f"{path} could not be read: {error}") from error
    if broken is not None:
        raise _Damaged(f"{broken} in {path} does not match its checksum")
