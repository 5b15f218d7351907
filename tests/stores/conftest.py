"""One server of each kind for all tests here; each test works below a path of its own."""

import os
from collections.abc import Iterator

import pytest

from tests.leaks import SHARED
from tests.stores.azure import AzureServer, azure_server
from tests.stores.gcs import GcsServer, gcs_server
from tests.stores.hdfs_server import HdfsServer, running_hdfs
from tests.stores.s3 import S3Server, s3_server


@pytest.fixture(scope="session", autouse=True)
def no_credentials_of_the_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the person who runs the tests has set up for real clouds must not be used, nor decide a test."""
    kept = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR", "HADOOP_")):
            del os.environ[name]
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
    yield
    os.environ.clear()
    os.environ.update(kept)


@pytest.fixture(scope="session")
def s3(no_credentials_of_the_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        os.environ.update(server.environment)
        yield server


@pytest.fixture(scope="session")
def gcs(no_credentials_of_the_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    with gcs_server(tmp_path_factory.mktemp("gcs")) as server:
        os.environ.update(server.environment)
        yield server


@pytest.fixture(scope="session")
def azure(no_credentials_of_the_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with azure_server(tmp_path_factory.mktemp("azure")) as server:
        os.environ.update(server.environment)
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    with running_hdfs(tmp_path_factory.mktemp("hdfs"), datanodes=2) as server:
        SHARED.append(server.pids)
        yield server
        SHARED.remove(server.pids)
