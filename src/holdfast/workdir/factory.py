"""Creates the work directory for a path or URL. A new kind of place gets its line in `_PLACES`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.errors import InvalidSettings
from holdfast.storage.location import SCHEMES
from holdfast.workdir.hdfs import HdfsCluster, HdfsDirectory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.mounted import MountedDirectory
from holdfast.workdir.object_place import ObjectDirectory, ObjectPlace


def work_directory(given: str | Path) -> WorkDirectory:
    """Spark writes there as to any file system; holdfast must be able to read it. Does no I/O."""
    scheme, colon, _ = str(given).partition("://")
    if not colon:
        return MountedDirectory(Path(given))
    place = _PLACES.get(scheme)
    if place is None:
        raise _not_usable(str(given))
    return place(str(given))


def readable_directory(given: str | Path) -> WorkDirectory:
    """For a directory that holdfast only reads: it may be on an object store, too."""
    scheme, colon, _ = str(given).partition("://")
    if colon and scheme in SCHEMES:
        return _object_store(str(given))
    if colon and scheme not in _PLACES:
        raise InvalidSettings(
            f"could not read {given}: holdfast does not know {scheme}://",
            hint="give a path, or a URL with hdfs://, s3a://, gs:// or abfss://",
        )
    return work_directory(given)


def default_work(home: str) -> WorkDirectory:
    return MountedDirectory(_default_path(home))


def local_place(work: str | Path | None, home: str) -> Path:
    """Where a job keeps local files that do not belong into the work directory itself: beside it or, when it is not
    mounted, at the default place."""
    given = work_directory(work).mounted_at if work is not None else None
    return given or _default_path(home)


def _mounted(url: str) -> WorkDirectory:
    path = url.removeprefix("file://")
    if not path.startswith("/"):
        raise _not_usable(url)
    return MountedDirectory(Path(unquote(path)))


def _hdfs(url: str) -> WorkDirectory:
    """The URL is not escaped: Spark uses it unchanged."""
    parts = urlsplit(url)
    if "@" in parts.netloc or parts.query or parts.fragment or not parts.hostname:
        raise InvalidSettings.of(
            "work",
            f"hdfs://{parts.netloc.rpartition('@')[2]}{parts.path}",
            "an HDFS URL is hdfs://host:port/path or hdfs://nameservice/path, without user and options",
            hint="the user comes from HADOOP_USER_NAME or Kerberos, settings from HADOOP_CONF_DIR",
        )
    return HdfsDirectory(HdfsCluster(f"hdfs://{parts.netloc}"), f"/{parts.path.strip('/')}")


def _object_store(url: str) -> WorkDirectory:
    return ObjectDirectory(ObjectPlace(url))


_PLACES: dict[str, Callable[[str], WorkDirectory]] = {"file": _mounted, "hdfs": _hdfs, "s3a": _object_store}


def _not_usable(given: str) -> InvalidSettings:
    return InvalidSettings.of(
        "work",
        given,
        "must be a path, or file:///path, of a file system that this machine has mounted; or hdfs://host:port/path, "
        "or s3a://bucket/path",
        hint="on a cluster, use S3, or mount a volume on every machine at the same path: docs/cluster.md",
    )


def _default_path(home: str) -> Path:
    """Below the user's data directory, separate for each home, so that equal job names of two homes do not collide."""
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
