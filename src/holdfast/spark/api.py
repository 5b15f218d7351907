"""`holdfast.run` and `holdfast.start`."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote

from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.identifiers import JobName, job_name
from holdfast.job_log import about
from holdfast.runtime.launching import Surroundings, look
from holdfast.settings import Settings
from holdfast.sinks.protocol import Sink, Step, no_step, output_modes
from holdfast.spark.running import RunningJob
from holdfast.spark.uncaught import explain_uncaught
from holdfast.storage.work_path import WorkPath, work_path


def start(
    build_or_writer: Any,
    *,
    job: str,
    home: str,
    sink: Sink | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> RunningJob:
    """Recover the job, start its query, supervise it, and return without waiting for its end.

    `build_or_writer` is a function from a SparkSession to a streaming DataFrame (or to a DataStreamWriter), or a
    DataStreamWriter itself; a writer's own sink gets its rows at least once, not exactly once.
    """
    return start_stepwise(build_or_writer, job, home, sink, Settings.merged(settings, options), no_step)


def run(
    build: Any, *, job: str, home: str, sink: Sink | None = None, settings: Settings | None = None, **options: Any
) -> None:
    """The same, and wait until the job ends. SIGTERM and SIGINT stop it cleanly, with a last checkpoint.

    Raises what the job ended with: `OwnedByAnotherRun` when it may not start, `Incompatible` when the query does not
    fit its checkpoint, `Fenced` when it was taken over, `JobFailed` when it was given up. When nobody catches it, the
    process ends with the words and the exit code of `holdfast run`.
    """
    explain_uncaught()
    running = start(build, job=job, home=home, sink=sink, settings=settings, **options)
    with _stopping_on_signals(running):
        while not running.await_termination("1s"):
            pass


def start_stepwise(build: Any, job: str, home: str, sink: Sink | None, settings: Settings, step: Step) -> RunningJob:
    """`start` with a hook between any two steps, for tests that crash there."""
    name = job_name(job)
    with about(name):
        return _started(build, name, home, sink, settings, step)


def _started(build: Any, name: JobName, home: str, sink: Sink | None, settings: Settings, step: Step) -> RunningJob:
    if not isinstance(home, str) or not home:
        raise InvalidSettings.of("home", home, "must be the URL of a store", hint="home='file:///var/lib/holdfast'")
    if sink is not None and not callable(getattr(sink, "stage", None)):
        raise InvalidSettings.of("sink", sink, "must be a sink such as holdfast.sinks.Delta('/data/orders')")
    _require_pipeline(build)
    _require_output_mode(sink, settings.output_mode)
    work = _work_path(settings.work) if settings.work is not None else _default_work(home)
    around = Surroundings.real(step, settings.identity_in(os.environ))
    place = look(name, home.rstrip("/") or home, work, settings, around)

    # Only now: a job that is owned by another run is refused before Spark takes its seconds to start.
    try:
        from holdfast.spark.carrying import carrier_for
        from holdfast.spark.query import SparkQuery, as_holdfast_error, built_by
        from holdfast.spark.runnable import require_runnable
        from holdfast.spark.session import session_for
    except ImportError as error:
        raise InvalidSettings(f"could not load PySpark: {error}", hint="pip install 'holdfast-spark[spark]'") from error
    spark = settings.spark or session_for(name)
    try:
        built = built_by(build, spark, sink)
    except Exception as error:
        if isinstance(error, HoldfastError):
            raise
        raise InvalidSettings(f"could not build the pipeline: {as_holdfast_error(error).message}") from error
    require_runnable(built, settings.output_mode, begins=place.begins)
    carry = carrier_for(spark, place)
    return RunningJob(place, SparkQuery(spark, name, built, sink, settings, step), carry)


def _require_pipeline(build: Any) -> None:
    if not callable(build) and not hasattr(build, "start"):
        raise InvalidSettings.of(
            "build", build, "must be a function from a SparkSession to a streaming DataFrame, or a DataStreamWriter"
        )


_REPLACES = {"update": "replaces rows by their key", "complete": "overwrites the whole table"}


def _require_output_mode(sink: Sink | None, mode: str) -> None:
    """Old rows of a result would stay visible beside the new ones, without a word."""
    if sink is not None and mode not in output_modes(sink):
        raise InvalidSettings.of(
            "output_mode",
            mode,
            f"{sink.describe()} adds the rows of each batch to those before, so it can only append",
            hint="group by a window and append its final rows; or let the pipeline return a DataStreamWriter whose "
            f"foreachBatch {_REPLACES.get(mode, 'writes')}, so that a batch written twice after a crash does no harm",
        )


def _work_path(work: str | Path) -> WorkPath:
    """Spark writes there as to any file system; holdfast must be able to read it."""
    scheme, colon, rest = str(work).partition("://")
    if not colon:
        return Path(work).absolute()
    if scheme == "file" and rest.startswith("/"):
        return Path(unquote(rest))
    if scheme == "hdfs":
        return work_path(str(work))
    raise InvalidSettings.of(
        "work",
        str(work),
        "must be a path, or file:///path, of a file system that this machine has mounted; or hdfs://host:port/path",
        hint="on a cluster, mount a volume or NFS on every machine at the same path: --work /mnt/shared/holdfast",
    )


def _default_work(home: str) -> Path:
    """Below the user's data directory, apart for each home, so that equal job names of two homes do not meet."""
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "holdfast" / "work" / hashlib.sha256(home.rstrip("/").encode()).hexdigest()[:12]


class _stopping_on_signals:
    """The first SIGTERM or SIGINT stops the job cleanly; a second one is for the impatient and kills."""

    def __init__(self, running: RunningJob) -> None:
        self._running = running
        self._previous: dict[int, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous[number] = signal.signal(number, self._stop)

    def __exit__(self, *exc: object) -> None:
        for number, previous in self._previous.items():
            signal.signal(number, previous)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        self._running.begin_stop()
