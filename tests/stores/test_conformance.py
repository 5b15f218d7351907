"""Every store passes the public suite, against a real server where it has one."""

from pathlib import Path

import pytest

from holdfast.storage.interface import ObjectStore
from holdfast.storage.local import LocalStore
from holdfast.storage.urls import open_store
from holdfast.testing.stores import LinkConformance, StoreConformance
from tests.stores.azure import AzureServer
from tests.stores.gcs import GcsServer
from tests.stores.hdfs_server import HdfsServer
from tests.stores.s3 import S3Server


class TestLocalDirectory(LinkConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path) -> None:
        self.path = tmp_path
        (tmp_path / "home").mkdir()

    def make_store(self) -> ObjectStore:
        return LocalStore(self.path / "home")

    def plant_link(self, name: str, key: str) -> None:
        outside = self.path / "outside"
        outside.mkdir()
        (outside / "precious").write_bytes(b"precious")
        (self.path / "home" / name / key).symlink_to(outside)


class TestS3(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, s3: S3Server) -> None:
        self.home = s3.home("homes/of team")

    def make_store(self) -> ObjectStore:
        return open_store(self.home)


class TestGoogle(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, gcs: GcsServer) -> None:
        self.home = gcs.home("homes/of team")

    def make_store(self) -> ObjectStore:
        return open_store(self.home)


class TestAzure(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, azure: AzureServer) -> None:
        self.home = azure.home("homes/of team")

    def make_store(self) -> ObjectStore:
        return open_store(self.home)


class TestHdfs(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, hdfs: HdfsServer) -> None:
        self.home = f"{hdfs.address}/homes/of%20team"

    def make_store(self) -> ObjectStore:
        return open_store(self.home)
