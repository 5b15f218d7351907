"""A Spark standalone cluster on this machine: one master and workers of one core each, every one a process."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.patience import PATIENCE

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_ENVIRONMENT = {
    "SPARK_NO_DAEMONIZE": "1",
    "SPARK_DAEMON_MEMORY": "256m",
    # However often executors are killed, their application stays.
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false -Dspark.deploy.maxExecutorRetries=-1",
}
HERE = "127.0.0.1"


@dataclass(frozen=True)
class Seat:
    """Where a daemon runs: the command that puts it there, and its address."""

    host: str = HERE
    launcher: Sequence[str] = ()
    folder: Path | None = None
    """For what its executors write; without it, one beside the log."""


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

    def add_worker(self, cores: int = 1, blind_to: Path | None = None, seat: Seat | None = None) -> Daemon:
        """`blind_to` is a directory in whose place the worker and its executors see an empty one."""
        name = f"worker-{len(self.workers)}"
        seat = seat or Seat(launcher=_without(blind_to) if blind_to is not None else ())
        arguments = ["org.apache.spark.deploy.worker.Worker", "--host", seat.host, "--webui-port", "0"]
        arguments += ["--cores", str(cores), "--memory", "1g", "--work-dir", str((seat.folder or self.folder) / name)]
        worker = _started([*arguments, self.url], self.folder / f"{name}.log", seat)
        self.workers.append(worker)
        worker.wait_for("Successfully registered with master")
        return worker

    def close(self) -> None:
        for daemon in (*self.workers, self.master):
            daemon.kill()


@contextlib.contextmanager
def standalone_cluster(folder: Path, host: str = HERE) -> Iterator[Cluster]:
    """Without workers."""
    arguments = ["org.apache.spark.deploy.master.Master", "--host", host, "--port", "0", "--webui-port", "0"]
    master = _started(arguments, folder / "master.log", Seat(host))
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


def _without(folder: Path) -> tuple[str, ...]:
    hidden = f'mount -t tmpfs none {shlex.quote(str(folder))} && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", hidden, "sh")


def _started(arguments: list[str], log: Path, seat: Seat) -> Daemon:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*seat.launcher, str(_SPARK_CLASS), *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_ENVIRONMENT, "SPARK_LOCAL_IP": seat.host, "SPARK_LOCAL_HOSTNAME": seat.host},
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
