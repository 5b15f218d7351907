"""Where the homes of a world are: directories, or a store whose server runs as long as the attack."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.stores.azure import azure_server
from tests.stores.gcs import gcs_server
from tests.stores.hdfs_server import running_hdfs
from tests.stores.s3 import s3_server

Homes = Callable[[str], str]
"""From a name to the URL of a home."""


@contextmanager
def _directories(directory: Path) -> Iterator[None]:
    yield None


@contextmanager
def _s3(directory: Path) -> Iterator[Homes]:
    with s3_server(directory / "s3") as server:
        os.environ.update(server.environment)
        yield server.home


@contextmanager
def _gcs(directory: Path) -> Iterator[Homes]:
    with gcs_server(directory) as server:
        os.environ.update(server.environment)
        yield server.home


@contextmanager
def _azure(directory: Path) -> Iterator[Homes]:
    with azure_server(directory) as server:
        os.environ.update(server.environment)
        yield server.home


@contextmanager
def _hdfs(directory: Path) -> Iterator[Homes]:
    with running_hdfs(directory / "hdfs") as server:
        yield lambda name: f"{server.address}/{name}"


STORES: dict[str, Callable[[Path], AbstractContextManager[Homes | None]]] = {
    "file": _directories,
    "s3": _s3,
    "gcs": _gcs,
    "azure": _azure,
    "hdfs": _hdfs,
}
