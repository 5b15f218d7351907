"""Where a work directory is: on a file system that this machine has mounted, or on HDFS."""

import hashlib
import os
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from holdfast.errors import InvalidSettings
from holdfast.storage.hdfs_path import HdfsPath

WorkPath: TypeAlias = Path | HdfsPath
AnyPath = TypeVar("AnyPath", Path, HdfsPath)

_HDFS = "hdfs://"


def work_path(location: str) -> WorkPath:
    """The path that prints as `location`. Nothing in it is escaped: Spark takes it as it is."""
    if not location.startswith(_HDFS):
        return Path(location)
    parts = urlsplit(location)
    if "@" in parts.netloc or parts.query or parts.fragment or not parts.hostname:
        raise InvalidSettings.of(
            "work",
            f"{_HDFS}{parts.netloc.rpartition('@')[2]}{parts.path}",
            "an HDFS URL is hdfs://host:port/path or hdfs://nameservice/path, without user and options",
            hint="the user comes from HADOOP_USER_NAME or Kerberos, settings from HADOOP_CONF_DIR",
        )
    try:
        # Loaded here: a local work directory does not need it.
        from holdfast.storage.hdfs_connection import HdfsConnection
    except ModuleNotFoundError as error:
        rule = f"HDFS needs the package {error.name}"
        raise InvalidSettings.of("work", location, rule, hint="pip install 'holdfast-spark[hdfs]'") from error
    connection = HdfsConnection(f"{_HDFS}{parts.netloc}")
    return HdfsPath(connection, f"/{parts.path.strip('/')}")


def default_work(home: str) -> Path:
    """Below the user's data directory, apart for each home, so that equal job names of two homes do not meet."""
    data = os.environ.get("XDG_DATA_HOME") or _home_directory() / ".local" / "share"
    return Path(data) / "holdfast" / "work" / hashlib.sha256(home.rstrip("/").encode()).hexdigest()[:12]


def _home_directory() -> Path:
    try:
        return Path.home()
    except RuntimeError as error:
        raise InvalidSettings(
            "could not find a place for the work directory: neither HOME nor XDG_DATA_HOME is set, and user "
            f"{os.getuid()} has no entry in /etc/passwd",
            hint="say where: --work /var/lib/holdfast/work, or work=… in Python",
        ) from error


def given_work_path(work: str | Path) -> WorkPath:
    """Spark writes there as to any file system; holdfast must be able to read it."""
    scheme, colon, rest = str(work).partition("://")
    if not colon:
        return Path(work).absolute()
    if scheme == "file" and rest.startswith("/"):
        return Path(unquote(rest))
    if scheme == "hdfs":
        return work_path(str(work))
    raise InvalidSettings.of(
        "work",
        str(work),
        "must be a path, or file:///path, of a file system that this machine has mounted; or hdfs://host:port/path",
        hint="on a cluster, mount a volume or NFS on every machine at the same path: --work /mnt/shared/holdfast",
    )


def local_place(work: str | Path | None, home: str) -> Path:
    """Where a job keeps on this machine what does not belong into the work directory itself: beside it, or where it
    would be by default when it is on HDFS."""
    if work is None or str(work).startswith(_HDFS):
        return default_work(home)
    place = given_work_path(work)
    assert isinstance(place, Path)
    return place


def names_in(folder: WorkPath) -> list[str]:
    """Raises `FileNotFoundError` when there is no such folder."""
    return os.listdir(folder) if isinstance(folder, Path) else [path.name for path in folder.iterdir()]


def write_whole(path: WorkPath, data: bytes) -> None:
    """Readers find the old bytes or the new ones; a hard link to the old ones keeps them."""
    if isinstance(path, Path):
        temporary = path.with_name(f".{path.name}")
        temporary.write_bytes(data)
        os.replace(temporary, path)
    else:
        path.write_whole(data)
