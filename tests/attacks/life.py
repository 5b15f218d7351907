"""One life of a job, or one command, in a process of its own."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import resource
import signal
import socket
import sys
import threading
import traceback
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.cli.observing import job_store
from holdfast.errors import HoldfastError, StopAsked
from holdfast.identifiers import JobName
from holdfast.repository.journal import read_entries
from holdfast.repository.self_report import NAME as STATE_FILE
from holdfast.repository.state import JobState
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.commands.copying import JobHome
from holdfast.runtime.commands.rescaling import examine, rescale
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.preflight import preflight
from holdfast.settings import Settings
from holdfast.sinks import Delta, Files
from holdfast.snapshot.carrier import copy_shards
from holdfast.spark.running import RunningJob
from holdfast.spark.stop_signals import stopping_on_signals
from holdfast.workdir.factory import work_directory
from tests.attacks.engine import Engine, use_instead_of_spark

_CLONE_NEWUTS = 0x04000000


class ShiftedClock(SystemClock):
    def __init__(self, hours: float) -> None:
        self._hours = hours

    def wall(self) -> datetime:
        return super().wall() + timedelta(hours=self._hours)


class Steps:
    """Counted for whoever watches; the process ends at the n-th."""

    def __init__(self, counted: Path, dies_at: int | None) -> None:
        self._file = counted.open("wb", buffering=0)
        self._taken, self._dies_at = 0, dies_at
        self._lock = threading.Lock()

    def __call__(self, name: str) -> None:
        with self._lock:
            self._taken += 1
            with suppress(OSError):
                self._file.write(b".")
            if self._taken == self._dies_at:
                logging.getLogger("attack").warning("dies at step %s", name)
                os.kill(os.getpid(), signal.SIGKILL)


def live(given: dict[str, Any], answer: Path, log: Path) -> None:
    """The whole life; how it ended goes to `answer` and is the exit code."""
    _to(log)
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    for name in ("py4j", "asyncio"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if given.get("host"):
        _call_host(given["host"])
    if given.get("open_files"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (given["open_files"], given["open_files"]))
    use_instead_of_spark()
    os.fsync = lambda handle: None  # a kill loses nothing that was written
    code, message = _lived(given, Steps(answer.with_suffix(".steps"), given.get("dies_at")))
    with suppress(OSError):  # descriptors, or sizes of files, are limited
        answer.write_text(json.dumps({"code": code, "message": message}))
    sys.stderr.write(f"ended with {code}: {message}\n")
    sys.stderr.flush()
    os._exit(code)


def _lived(given: dict[str, Any], step: Steps) -> tuple[int, str]:
    settings = Settings(work=given["work"], **given["options"])
    around = Environment.real(step, settings.identity)
    around = replace(around, clock=ShiftedClock(given.get("hours", 0.0)))
    try:
        with stopping_on_signals(settings.stop_timeout_s, to_the_end=True) as signals:
            sink = {"delta": Delta, "files": Files}[given["sink"]](given["place"], step=step)
            state_file = Path(given["work"]) / given["job"] / STATE_FILE
            work = work_directory(given["work"])
            location = preflight(
                JobName(given["job"]), given["home"], work, settings, around, sink.describe(), state_file
            )
            engine = Engine(
                sink,
                Path(given["source"]),
                step,
                ends=given["ends"],
                per_batch=given["per_batch"],
                pause=given["pause"],
            )
            running = RunningJob(location, engine, copy_shards)  # type: ignore[arg-type]
            signals.stop_with(running.begin_stop)
            while not running.await_termination("50ms"):
                pass
    except StopAsked:
        return 0, "stopped while it started"
    except HoldfastError as error:
        return error.exit_code, f"{type(error).__name__}: {error} | Try: {error.hint}"
    except OSError as error:
        return 1, f"{error}"
    except BaseException:
        return 99, traceback.format_exc()
    return 0, ""


def command(arguments: list[str], output: Path, log: Path) -> None:
    """`holdfast` with these arguments."""
    _to(log)
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(handle, 1)
    sys.stderr.write(f"$ holdfast {' '.join(arguments)}\n")
    sys.stderr.flush()
    from holdfast.cli.main import main

    sys.argv = ["holdfast", *arguments]
    code: Any = 0
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 99
    code = code if isinstance(code, int) else 0
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def rescaled(home: str, job: str, scratch: str, dies_at: int | None, log: Path) -> None:
    """`holdfast rescale`, with a repartitioning that needs no Spark."""
    _to(log)
    steps = Steps(Path(f"{scratch}.steps"), dies_at)
    around = Environment.real(steps)
    engine = Engine(None, Path(), lambda _: None, ends=True, per_batch=1, pause=0)
    try:
        target = JobHome(JobName(job), home, job_store(home, job))
        end = examine(target, JobState.of(read_entries(target.store)))
        entry = rescale(
            target,
            end,
            7,
            work_directory(scratch),
            lambda directory, barrier: engine.repartitioned(Path(scratch), barrier),
            lambda title, size: nullcontext(lambda count: None),
            around,
        )
        sys.stderr.write(f"rescaled: checkpoint {entry.id} at batch {entry.barrier_batch_id}\n")
        code = 0
    except HoldfastError as error:
        sys.stderr.write(f"rescale: {type(error).__name__}: {error} | Try: {error.hint}\n")
        code = error.exit_code
    except OSError as error:
        sys.stderr.write(f"rescale: {error}\n")
        code = 6
    except BaseException:
        traceback.print_exc()
        code = 99
    sys.stderr.flush()
    os._exit(code)


def _to(log: Path) -> None:
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(handle, 1)
    os.dup2(handle, 2)


def _call_host(name: str) -> None:
    """This process and nobody else is on a host of that name."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUTS) == 0:
        socket.sethostname(name)
