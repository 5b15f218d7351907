"""A Spark standalone cluster on this machine: one master and workers of one core each, every one a process."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.patience import PATIENCE

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ENVIRONMENT = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
    "SPARK_NO_DAEMONIZE": "1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}


@dataclass(frozen=True)
class Daemon:
    process: subprocess.Popen[bytes]
    log: Path

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line of its log that matches."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.log.read_text())) is None:
            assert self.process.poll() is None, f"it ended: see {self.log}"
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.log}"
            time.sleep(0.05)
        return found

    def kill(self) -> None:
        """With everything that it started, as when its machine dies."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@dataclass
class Cluster:
    folder: Path
    url: str
    master: Daemon
    workers: list[Daemon]

    def add_worker(self, cores: int = 1, blind_to: Path | None = None) -> Daemon:
        """`blind_to` is a directory in whose place the worker and its executors see an empty one."""
        number = len(self.workers)
        arguments = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0"]
        arguments += [
            "--cores",
            str(cores),
            "--memory",
            "1g",
            "--work-dir",
            str(self.folder / f"worker-{number}"),
            self.url,
        ]
        worker = _started(arguments, self.folder / f"worker-{number}.log", blind_to)
        self.workers.append(worker)
        worker.wait_for("Successfully registered with master")
        return worker

    def close(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """Without workers."""
    arguments = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
    master = _started(arguments, folder / "master.log")
    try:
        url = master.wait_for(r"Starting Spark master at (spark://[\d.:]+)")[1]
        cluster = Cluster(folder, url, master, [])
    except BaseException:
        master.kill()
        raise
    try:
        yield cluster
    finally:
        cluster.close()


def _started(arguments: list[str], log: Path, blind_to: Path | None = None) -> Daemon:
    command = [str(_SPARK_CLASS), *arguments]
    if blind_to is not None:
        hidden = f"mount -t tmpfs none {shlex.quote(str(blind_to))} && exec {shlex.join(command)}"
        command = ["unshare", "--mount", "sh", "-c", hidden]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT},
            start_new_session=True,
        )
    return Daemon(process, log)


def is_descendant(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = _parent(pid)
    return False


def writer_below(folder: Path) -> int | None:
    """The process that has a file below the folder open for writing, None when there is none."""
    prefix = f"{folder}/"
    if next(folder.glob("**/.tmp-*"), None) is None:
        return None
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            target = os.readlink(handle)
            if target.startswith(prefix) and "/.tmp-" in target:
                return int(handle.parts[2])
    return None


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
