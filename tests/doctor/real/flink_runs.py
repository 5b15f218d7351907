"""Flink jobs broken on purpose, and the logs that they wrote: `python -m tests.doctor.real.flink_runs DIRECTORY`.

Flink is that of PyPI (`apache-flink-libraries`), in a virtual environment of its own below `~/.cache/holdfast-tests`.
The full disk is a small tmpfs, so that scenario needs the right to mount.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.doctor.real.trimming import trim

VERSIONS = ("2.1.0", "1.20.3")
_CACHE = Path.home() / ".cache" / "holdfast-tests"
_PATTERN = "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n"
OPENS = [
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in (
        "java.lang",
        "java.net",
        "java.io",
        "java.nio",
        "sun.nio.ch",
        "java.util",
        "java.util.concurrent",
        "java.time",
        "java.util.concurrent.atomic",
        "java.util.concurrent.locks",
        "java.lang.reflect",
        "java.text",
    )
]
_PATIENCE_S = 90
_JOB_ID = "000000006e6b13320000000000000000"

Settings = Mapping[str, object]


class Flink:
    """One version, and a directory for what it writes."""

    def __init__(self, version: str, place: Path) -> None:
        self.place = place
        place.mkdir(parents=True)
        self._jars = libraries(version) / "lib"
        self._classes = place / "classes"
        source = Path(__file__).with_name("BrokenJob.java")
        subprocess.run(["javac", "-cp", f"{self._jars}/*", "-d", str(self._classes), str(source)], check=True)
        self._logging = place / "log4j2.properties"
        self._logging.write_text(
            "rootLogger.level = INFO\nrootLogger.appenderRef.console.ref = console\nappender.console.name = console\n"
            f"appender.console.type = CONSOLE\nappender.console.layout.type = PatternLayout\n"
            f"appender.console.layout.pattern = {_PATTERN}\n"
        )

    def jar(self) -> Path:
        """The job's classes, for a cluster that does not have them."""
        return Path(shutil.make_archive(str(self.place / "job"), "zip", self._classes))

    @contextmanager
    def java(self, log: Path, main: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Ends with the block, however it ends."""
        options = [*OPENS, "-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Dlog4j.configurationFile={self._logging}"]
        command = ["java", *options, "-cp", f"{self._classes}:{self._jars}/*", main, *arguments]
        with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
            try:
                yield process
            finally:
                process.kill()

    def job(self, log: Path, **settings: object):  # type: ignore[no-untyped-def]
        given = {**_USUAL, **{name.replace("__", "-").replace("_", "."): value for name, value in settings.items()}}
        return self.java(log, "BrokenJob", *(f"{name}={value}" for name, value in given.items()))


_USUAL: dict[str, object] = {
    "execution.checkpointing.interval": "300ms",
    "execution.checkpointing.tolerable-failed-checkpoints": 2,
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 1,
    "restart-strategy.fixed-delay.delay": "200ms",
}


def libraries(version: str) -> Path:
    """Installed when they are not there yet: 300 MB."""
    home = _CACHE / f"flink-{version}"
    place = home / f"lib/python3.{sys.version_info.minor}/site-packages/pyflink"
    if not place.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin/pip"), "install", "-q"]
        subprocess.run([*pip, "setuptools", "wheel"], check=True)
        subprocess.run([*pip, "--no-deps", "--no-build-isolation", f"apache-flink-libraries=={version}"], check=True)
    return place


def until(log: Path, text: str, process: subprocess.Popen[bytes] | None = None) -> None:
    """Waits for the text in the log, or the end of the process."""
    deadline = time.monotonic() + _PATIENCE_S
    while text not in log.read_text(errors="replace"):
        if process is not None and process.poll() is not None:
            return
        assert time.monotonic() < deadline, f"{text!r} did not come up in {log}"
        time.sleep(0.1)


def tiny_timeout(flink: Flink, log: Path) -> None:
    given = {"execution.checkpointing.timeout": "10ms", "slow": 50, **_directory(flink.place / "checkpoints")}
    with flink.job(log, **given) as process:
        process.wait(_PATIENCE_S)


def full_disk(flink: Flink, log: Path) -> None:
    disk = flink.place / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=True)
    try:
        with flink.job(log, **_directory(disk)) as process:
            process.wait(_PATIENCE_S)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def two_deployments(flink: Flink, log: Path) -> None:
    """Both have the job id that a Kubernetes operator would give them, and one directory."""
    given = {"$internal.pipeline.job-id": _JOB_ID, **_directory(flink.place / "checkpoints")}
    other = log.with_suffix(".other")
    with flink.job(other, **given) as first:
        until(other, "Completed checkpoint 4", first)
        with flink.job(log, **given) as second:
            until(log, "_metadata already exists", second)


def corrupt_state(flink: Flink, log: Path) -> None:
    checkpoints = flink.place / "checkpoints"
    rocksdb = {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        **_directory(checkpoints),
    }
    before = log.with_suffix(".before")
    with flink.job(before, **rocksdb) as first:
        until(before, "Completed checkpoint 5", first)
    newest = max(checkpoints.glob("*/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    for state in newest.parent.parent.glob("shared/*"):
        state.write_bytes(os.urandom(state.stat().st_size))
    with flink.job(log, **rocksdb, **{"execution.savepoint.path": str(newest.parent)}) as second:
        second.wait(_PATIENCE_S)


def killed_worker(flink: Flink, log: Path) -> None:
    """A cluster of two processes; the one that works is killed."""
    conf = flink.place / "conf"
    conf.mkdir()
    settings = {**CLUSTER, **_USUAL, **_directory(flink.place / "checkpoints")}
    (conf / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    runtime, at = "org.apache.flink.runtime", ("--configDir", str(conf))
    master, worker = (
        f"{runtime}.entrypoint.StandaloneSessionClusterEntrypoint",
        f"{runtime}.taskexecutor.TaskManagerRunner",
    )
    tasks = log.with_suffix(".worker")
    with flink.java(log, master, *at), flink.java(tasks, worker, *at) as killed:
        until(tasks, "Successful registration at resource manager", killed)
        with flink.job(log.with_suffix(".client"), **settings, jar=flink.jar()):
            until(log, "Completed checkpoint 2")
            killed.send_signal(signal.SIGKILL)
            until(log, "to FAILED")


_MEMORY = "taskmanager.memory"
CLUSTER: dict[str, object] = {
    "jobmanager.memory.process.size": "1g",
    "jobmanager.rpc.address": "127.0.0.1",
    "jobmanager.rpc.port": 16471,
    "rest.address": "127.0.0.1",
    "rest.port": 18471,
    "heartbeat.interval": 500,
    "heartbeat.timeout": 4000,
    "slot.request.timeout": 3000,
    "taskmanager.host": "127.0.0.1",
    "taskmanager.numberOfTaskSlots": 2,
    "taskmanager.cpu.cores": 1,
    **{f"{_MEMORY}.{part}": "64m" for part in ("framework.heap.size", "framework.off-heap.size", "managed.size")},
    **{f"{_MEMORY}.{part}": "64m" for part in ("network.min", "network.max", "jvm-overhead.min", "jvm-overhead.max")},
    f"{_MEMORY}.task.heap.size": "200m",
    f"{_MEMORY}.task.off-heap.size": "0m",
    f"{_MEMORY}.jvm-metaspace.size": "128m",
}


def _directory(place: Path) -> dict[str, object]:
    return {"execution.checkpointing.storage": "filesystem", "execution.checkpointing.dir": place.as_uri()}


SCENARIOS: dict[str, Callable[[Flink, Path], None]] = {
    "tiny-timeout": tiny_timeout,
    "full-disk": full_disk,
    "two-deployments": two_deployments,
    "corrupt-state": corrupt_state,
    "killed-worker": killed_worker,
}


def main() -> None:
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:] or [f"{version}/{name}" for version in VERSIONS for name in SCENARIOS]
    for each in wanted:
        version, name = each.split("/")
        place = Path(tempfile.mkdtemp(prefix="holdfast-flink-"))
        log = to / f"flink-{version}-{name}.log"
        try:
            log.touch()
            SCENARIOS[name](Flink(version, place / "run"), log)
            trim(log)
        finally:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
