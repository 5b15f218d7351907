"""Where a work directory is: on a file system that this machine has mounted, or on HDFS."""

import os
from pathlib import Path
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

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
