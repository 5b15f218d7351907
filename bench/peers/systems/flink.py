"""Flink's SQL with RocksDB and incremental checkpoints, in one process, or as a master and a worker.

Flink is that of PyPI, in a virtual environment of its own. Rows are aggregated in small batches, as Flink's guide to
tuning recommends. A supervisor is assumed that starts from the newest checkpoint, as Flink's operator does.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bench.peers.pipeline import STRIDE, Group, Shape
from bench.peers.setting import Setting
from bench.peers.systems.system import Checkpoint, Processes, Progress, kill_group, start
from tests.doctor.real.flink_runs import CLUSTER, OPENS, libraries
from tests.stores.processes import free_port

VERSION = "2.3.0"
JOB_ID = "000000006e6b13320000000000000000"
_PATIENCE_S = 300
_PATTERN = "%d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %-60c %x - %m%n"
_RUNTIME = "org.apache.flink.runtime"
_LOCAL = {
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.min": "64m",
    "taskmanager.memory.network.max": "64m",
    "taskmanager.numberOfTaskSlots": 2,
}
_CLUSTER = {
    **CLUSTER,
    "taskmanager.memory.managed.size": "256m",
    "taskmanager.memory.task.heap.size": "300m",
    "slot.request.timeout": 30_000,
}


class Flink:
    name = "flink"
    title = "Flink"

    def version(self) -> str:
        return f"Flink {VERSION}"

    def start(self, setting: Setting) -> Processes:
        return self._start(setting, newest(setting, 0))

    def start_by_hand(self, setting: Setting) -> Processes | None:
        """From the checkpoint before the newest one."""
        older = newest(setting, 1)
        return None if older is None else self._start(setting, older)

    def _start(self, setting: Setting, resume: Path | None) -> Processes:
        setting.make_folders()
        script = Path(setting.place, "job.sql")
        script.write_text(sql(setting))
        port = free_port()
        Path(setting.place, "port").write_text(str(port))
        settings = {**_settings(setting), "rest.port": port, "rest.bind-port": port}
        if resume is not None:
            settings["execution.state-recovery.path"] = resume.as_uri()
        shape = setting.shape
        job = [str(script), str(setting.rows_per_second), str(shape.per_second), str(shape.delay)]
        given = [f"{name}={value}" for name, value in settings.items()]
        if not setting.worker:
            return Processes.of([_java(setting, "2g", "RunSql", *job, "local", *given)], setting.log)
        configuration = _configuration(setting, {**settings, **_CLUSTER, **_ports(port)})
        at = ("--configDir", str(configuration))
        master = _java(setting, "512m", f"{_RUNTIME}.entrypoint.StandaloneSessionClusterEntrypoint", *at)
        worker = _java(setting, "600m", f"{_RUNTIME}.taskexecutor.TaskManagerRunner", *at)
        client = _java(setting, "512m", "RunSql", *job, f"127.0.0.1:{port}:{_job_jar()}", *given)
        life = Processes.of([master, worker], setting.log)
        try:
            _until_answers(port, setting.log)
        except BaseException:
            life.kill()
            raise
        life.each.append(start(client, setting.log))
        return life

    def progress(self, setting: Setting, life: Processes) -> Progress | None:
        """By the counters of the source's tasks."""
        with suppress(OSError, KeyError, IndexError, ValueError, StopIteration):
            job = f"/jobs/{JOB_ID}"
            source = next(each for each in _ask(setting, job)["vertices"] if "ource" in each["name"])
            metrics = f"{job}/vertices/{source['id']}/subtasks/metrics"
            counter = next(
                each["id"]
                for each in _ask(setting, metrics)
                if each["id"].startswith("Source") and each["id"].endswith(".numRecordsOut")
            )
            rows = _ask(setting, f"{metrics}?get={counter}&agg=sum")[0]["sum"]
            return Progress(time.time(), round(rows)) if rows else None
        return None

    def full_checkpoint(self, setting: Setting, life: Processes) -> None:
        begun = _ask(setting, f"/jobs/{JOB_ID}/checkpoints", {"checkpointType": "FULL"})["request-id"]
        ends = time.monotonic() + _PATIENCE_S
        while (answer := _ask(setting, f"/jobs/{JOB_ID}/checkpoints/{begun}"))["status"]["id"] != "COMPLETED":
            if time.monotonic() > ends:
                raise RuntimeError("Flink's full checkpoint did not complete")
            time.sleep(0.1)
        if "checkpointId" not in answer["operation"]:
            raise RuntimeError(f"Flink's full checkpoint failed: {answer['operation'].get('failure-cause')}")
        _full(setting).write_text(str(answer["operation"]["checkpointId"]))

    def checkpoints(self, setting: Setting, life: Processes) -> list[Checkpoint]:
        history = _ask(setting, f"/jobs/{JOB_ID}/checkpoints")["history"]
        done = sorted((each for each in history if each["status"] == "COMPLETED"), key=lambda each: int(each["id"]))
        full = _full(setting).read_text() if _full(setting).exists() else ""
        return [
            Checkpoint(
                each["end_to_end_duration"] / 1000,
                each.get("checkpointed_size", each["state_size"]),
                full=str(each["id"]) == full,
            )
            for each in done
        ]

    def restarts(self, setting: Setting) -> int:
        return len(re.findall(r"switched from state RUNNING to RESTARTING", setting.log.read_text(errors="replace")))

    def worker(self, life: Processes) -> int:
        return life.each[1].pid

    def replace_worker(self, setting: Setting, life: Processes) -> None:
        kill_group(life.each[1])
        at = ("--configDir", str(Path(setting.place, "conf")))
        command = _java(setting, "600m", f"{_RUNTIME}.taskexecutor.TaskManagerRunner", *at)
        life.each[1] = start(command, setting.log)

    def written(self, setting: Setting) -> set[str]:
        return {str(path) for path in setting.output.rglob("*part-*") if path.stat().st_size}

    def visible(self, setting: Setting) -> list[Path]:
        return sorted(path for path in setting.output.rglob("part-*") if path.is_file())

    def margin(self, interval_s: float) -> int:
        return round(4 * interval_s)  # each task ends its files by itself

    def rows(self, file: Path) -> Iterator[Group]:
        for line in file.read_text().splitlines():
            yield Group(*map(int, line.split(",")))

    def newest_bytes(self, setting: Setting) -> Path:
        checkpoint = newest(setting, 0)
        assert checkpoint is not None
        named = (checkpoint / "_metadata").read_bytes()
        shared = [path for path in checkpoint.parent.glob("shared/*") if path.name.encode() in named]
        return max([*shared, *checkpoint.glob("*")], key=_place_in_time)


def _full(setting: Setting) -> Path:
    """Holds the id of the checkpoint that was asked to be a full one."""
    return Path(setting.place, "full")


def _place_in_time(path: Path) -> tuple[bool, float]:
    """The description of a checkpoint is its newest file, and counts only where there is no other."""
    return path.name != "_metadata", path.stat().st_mtime


def newest(setting: Setting, before: int) -> Path | None:
    """The newest completed checkpoint, or the one that many before it."""
    found = sorted(setting.store.glob(f"{JOB_ID}/chk-*/_metadata"), key=lambda path: path.stat().st_mtime)
    return found[-1 - before].parent if len(found) > before else None


def sql(setting: Setting) -> str:
    shape = setting.shape
    return _keyed(shape) if setting.query == "keyed" else _windowed(setting)


def _keyed(shape: Shape) -> str:
    return (
        "CREATE TABLE nowhere (customer BIGINT, orders BIGINT, total BIGINT, newest STRING) "
        "WITH ('connector' = 'blackhole');\n"
        f"INSERT INTO nowhere SELECT MOD(n * {STRIDE}, {shape.keys}), COUNT(*), SUM(n), "
        f"MAX(SHA2(CAST(n AS STRING), 512)) FROM events GROUP BY MOD(n * {STRIDE}, {shape.keys})"
    )


def _windowed(setting: Setting) -> str:
    """A part of the output ends with the checkpoint that follows the interval."""
    keys = setting.shape.window_keys
    return (
        "CREATE TABLE files (`second` BIGINT, customer BIGINT, orders BIGINT, total BIGINT) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{setting.output}', 'format' = 'csv', "
        f"'sink.rolling-policy.rollover-interval' = '{setting.interval}', "
        "'sink.rolling-policy.check-interval' = '500 ms');\n"
        "INSERT INTO files SELECT UNIX_TIMESTAMP(CAST(window_start AS STRING)), customer, COUNT(*), SUM(n) "
        f"FROM TABLE(TUMBLE(DATA => (SELECT n, event_time, MOD(n, {keys}) AS customer FROM events), "
        "TIMECOL => DESCRIPTOR(event_time), SIZE => INTERVAL '1' SECOND)) "
        "GROUP BY window_start, window_end, customer"
    )


def _settings(setting: Setting) -> dict[str, object]:
    settings: dict[str, object] = {
        "$internal.pipeline.job-id": JOB_ID,
        "state.backend.type": "rocksdb",
        "state.backend.rocksdb.localdir": str(setting.local / "rocksdb"),
        "io.tmp.dirs": str(setting.local / "tmp"),
        "execution.checkpointing.interval": setting.interval,
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": setting.store.as_uri(),
        # A second deployment that starts slowly must still find the one that it was told to resume from.
        "execution.checkpointing.num-retained": 40,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "table.local-time-zone": "UTC",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "500 ms",
        "table.exec.mini-batch.size": 10000,
        "metrics.fetcher.update-interval": 500,
        "web.checkpoints.history": 200,
        **_LOCAL,
    }
    if setting.timeout is not None:
        settings["execution.checkpointing.timeout"] = setting.timeout
    return settings


def _java(setting: Setting, heap: str, main: str, *arguments: str) -> list[str]:
    logging = Path(setting.place, "log4j2.properties")
    logging.write_text(
        "rootLogger.level = INFO\nrootLogger.appenderRef.console.ref = console\nappender.console.name = console\n"
        "appender.console.type = CONSOLE\nappender.console.layout.type = PatternLayout\n"
        f"appender.console.layout.pattern = {_PATTERN}\n"
    )
    options = [*OPENS, f"-Xmx{heap}", f"-Dlog4j.configurationFile={logging}"]
    return ["java", *options, "-cp", f"{_classes()}:{libraries(VERSION)}/lib/*", main, *arguments]


@cache
def _classes() -> Path:
    """The launcher, compiled once beside Flink."""
    to = libraries(VERSION) / "peers"
    source = Path(__file__).with_name("RunSql.java")
    subprocess.run(["javac", "-cp", f"{libraries(VERSION)}/lib/*", "-d", str(to), str(source)], check=True)
    return to


@cache
def _job_jar() -> Path:
    """The same for a cluster that does not have it."""
    jar = _classes().with_suffix(".jar")
    subprocess.run(["jar", "cf", str(jar), "-C", str(_classes()), "."], check=True)
    return jar


def _configuration(setting: Setting, settings: dict[str, object]) -> Path:
    folder = Path(setting.place, "conf")
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    return folder


def _ports(rest: int) -> dict[str, object]:
    return {"rest.port": rest, "rest.bind-port": rest, "jobmanager.rpc.port": free_port()}


def _ask(setting: Setting, path: str, body: object = None) -> Any:
    port = Path(setting.place, "port").read_text()
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def _until_answers(port: int, log: Path) -> None:
    ends = time.monotonic() + _PATIENCE_S
    while True:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/overview", timeout=5) as answer:
            if json.load(answer)["taskmanagers"]:
                return
        if time.monotonic() > ends:
            tail = log.read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError("\n".join(["Flink's cluster did not start:", *tail]))
        time.sleep(0.2)
