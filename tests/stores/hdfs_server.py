"""A real HDFS of one NameNode and its DataNodes, each a process of its own that can be killed.

PySpark brings Hadoop's client jars; the servers are one more jar of the same version, fetched once with Maven.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import pyspark
import pytest

from holdfast.errors import StorageError
from holdfast.storage.hdfs import HdfsStore
from holdfast.storage.hdfs_connection import HdfsConnection
from tests.patience import PATIENCE
from tests.stores.processes import cache, free_port

SMALL_JVM = ["-Xmx192m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
BRINGS = ("hadoop-client-api-*", "hadoop-client-runtime-*", "slf4j-api-*", "jcl-over-slf4j-*", "log4j-*")
"""What is taken from PySpark's own jars."""


class HdfsServer:
    def __init__(self, root: Path, *, datanodes: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are added to Hadoop's configuration."""
        self.root = root
        self.port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._datanodes = datanodes
        self._orders_at = [free_port() for _ in range(datanodes)]
        self._page = free_port()
        shutil.copytree(_formatted(), root / "name")
        for number in range(datanodes):
            listens_at = {
                "dfs.datanode.ipc.address": f"127.0.0.1:{self._orders_at[number]}",
                "dfs.namenode.http-address": f"127.0.0.1:{self._page}",
            }
            _configure(root / f"conf{number}", root, self.port, number, datanodes, listens_at | dict(settings or {}))

    @property
    def address(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def start(self) -> "HdfsServer":
        self.start_namenode()
        for number in range(self._datanodes):
            self.start_datanode(number)
        self.wait_until_ready()
        return self

    @contextmanager
    def put_right(self) -> Iterator[None]:
        """Whatever is killed in the block runs again after it."""
        try:
            yield
        finally:
            if "namenode" not in self._processes:
                self.start_namenode()
            for number in range(self._datanodes):
                if f"datanode{number}" not in self._processes:
                    self.start_datanode(number)
            self.wait_until_ready()

    def pids(self) -> list[int]:
        """Of those that run now: they are killed and started again."""
        return [process.pid for process in self._processes.values()]

    def stop(self) -> None:
        for name in list(self._processes):
            self._kill(name)

    def start_namenode(self) -> None:
        self._launch("namenode", 0, NAMENODE)

    def kill_namenode(self) -> None:
        self._kill("namenode")

    def start_datanode(self, number: int = 0) -> None:
        self._launch(f"datanode{number}", number, DATANODE)

    def kill_datanode(self, number: int = 0) -> None:
        self._kill(f"datanode{number}")

    @contextmanager
    def hanging_datanode(self) -> Iterator[None]:
        """It keeps its connections, takes new ones, and answers nothing."""
        process = self._processes["datanode0"]
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def report_blocks(self) -> None:
        """Let the DataNode tell the NameNode at once which blocks it has got."""
        self.administer("-triggerBlockReport", "-incremental", f"127.0.0.1:{self._orders_at[0]}")

    def administer(self, *arguments: str) -> None:
        subprocess.run(
            [*_java(self.root / "conf0"), ADMIN, *arguments], check=True, capture_output=True, timeout=PATIENCE
        )

    def wait_until_ready(self) -> None:
        store = HdfsStore(HdfsConnection(self.address, metadata_patience=5, data_patience=5), "/")
        deadline = time.monotonic() + PATIENCE
        while not self._knows_every_block():
            assert time.monotonic() < deadline, f"HDFS did not get ready: see {self.root}/*.log"
            assert self._processes["namenode"].poll() is None, f"the NameNode died: see {self.root}/namenode.log"
            time.sleep(0.1)
        while True:
            try:
                store.put("ready", b"yes")
                return
            except StorageError:
                assert time.monotonic() < deadline, f"HDFS did not get ready: see {self.root}/*.log"
                time.sleep(0.1)

    def _knows_every_block(self) -> bool:
        """Whether all DataNodes have told the NameNode what they have. With one of them it takes files before that."""
        page = f"http://127.0.0.1:{self._page}/jmx?qry=Hadoop:service=NameNode,name=*"
        try:
            with urllib.request.urlopen(page, timeout=10) as answer:
                beans = json.load(answer)["beans"]
        except OSError:
            return False
        state = {name: value for bean in beans for name, value in bean.items()}
        living = json.loads(state.get("LiveNodes", "{}")).values()
        # A DataNode that has only registered has no disks yet, and so none whose blocks are not known.
        has_disks = len(living) == self._datanodes and all(node["capacity"] for node in living)
        return bool(has_disks and state["NumStaleStorages"] == 0)

    def _launch(self, name: str, number: int, main: str) -> None:
        assert name not in self._processes, f"{name} is running"
        with (self.root / f"{name}.log").open("ab") as log:
            command = [*_java(self.root / f"conf{number}"), main]
            # What other tests set for Spark's JVMs is not meant for these.
            environment = {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.root, env=environment)

    def _kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.kill()
        process.wait()


@contextmanager
def running_hdfs(root: Path, *, datanodes: int = 1, settings: Mapping[str, str] | None = None) -> Iterator[HdfsServer]:
    """Skips the test where HDFS cannot be had."""
    server = HdfsServer(root, datanodes=datanodes, settings=settings)
    try:
        yield server.start()
    finally:
        server.stop()


def _configure(
    folder: Path, root: Path, port: int, number: int, datanodes: int, added: Mapping[str, str] | None = None
) -> None:
    settings = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "dfs.namenode.name.dir": str(root / "name"),
        "dfs.datanode.data.dir": str(root / f"data{number}"),
        "dfs.replication": str(datanodes),
        # Several blocks per object, without writing much.
        "dfs.blocksize": str(4 << 20),
        "dfs.namenode.fs-limits.min-block-size": str(1 << 20),
        # A dead DataNode is known as dead after 12 s, a living one is used at once.
        "dfs.heartbeat.interval": "1",
        "dfs.namenode.heartbeat.recheck-interval": "1000",
        "dfs.namenode.safemode.extension": "0",
        # With more than one replica a file can be closed before all DataNodes have reported: no wait of half a second.
        "dfs.namenode.file.close.num-committed-allowed": "1",
        "dfs.namenode.replication.min": "1",
        # Nothing on this disk has to survive a power cut.
        "dfs.namenode.edits.noeditlogchannelflush": "true",
        **dict.fromkeys(
            (
                "dfs.namenode.http-address",
                "dfs.datanode.address",
                "dfs.datanode.http.address",
                "dfs.datanode.ipc.address",
            ),
            "127.0.0.1:0",
        ),
        **(added or {}),
    }
    folder.mkdir()
    lines = [f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items()]
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


def _java(configuration: Path) -> list[str]:
    return _java_with(configuration, _server_jar())


def _java_with(configuration: Path, servers: Path) -> list[str]:
    jars = Path(pyspark.__file__).parent / "jars"
    brought = [str(path) for pattern in BRINGS for path in sorted(jars.glob(f"{pattern}.jar"))]
    return ["java", *SMALL_JVM, "-cp", os.pathsep.join([str(configuration), str(servers), *brought])]


def _server_jar() -> Path:
    """The jar of the servers, fetched if it is not there yet."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    jar = cache() / "hadoop" / f"hadoop-client-minicluster-{version}.jar"
    with _alone(jar.parent):
        if not jar.exists():
            _fetch(f"org.apache.hadoop:hadoop-client-minicluster:{version}", jar)
    return jar


def _fetch(artifact: str, jar: Path) -> None:
    if shutil.which("mvn") is None:
        pytest.skip("no HDFS: its server jar is fetched with Maven, and there is no mvn")
    partial = jar.parent / "fetched"
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    command = ["mvn", "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={partial}"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=jar.parent, timeout=PATIENCE, check=False)
    if result.returncode:
        pytest.skip(f"no HDFS: Maven could not fetch {artifact}: {result.stdout[-300:]}")
    (partial / jar.name).rename(jar)


def _formatted() -> Path:
    """An empty file system, made once."""
    jar = _server_jar()
    name = jar.with_suffix(".formatted")
    with _alone(jar.parent):
        if not name.exists():
            making = name.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            _configure(making / "conf", making, 1, 0, 1)
            command = [*_java_with(making / "conf", jar), NAMENODE, "-format", "-nonInteractive"]
            subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
            (making / "name").rename(name)
            shutil.rmtree(making)
    return name


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time, so that two test runs do not fetch the same thing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
