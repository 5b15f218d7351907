"""`holdfast.run` and `holdfast.start`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Unpack

from holdfast.errors import HoldfastError, InvalidSettings, JobFailed, StopAsked
from holdfast.identifiers import JobName, job_name
from holdfast.job_log import about, begin_step, enter_step, log, phase
from holdfast.monitoring.metrics_server import metrics_of
from holdfast.monitoring.traces import require_traces
from holdfast.notifying.channels import receivers_of
from holdfast.options import Options
from holdfast.repository.self_report import NAME as STATE_FILE
from holdfast.runtime.progress import still_saying
from holdfast.runtime.query.causes import failure_of_start
from holdfast.runtime.reports.status import last_words
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.preflight import preflight
from holdfast.settings import Settings
from holdfast.sinks.protocol import Sink, Step, no_step, output_modes
from holdfast.sources.kafka_client import require_client
from holdfast.spark.connect import refuse_connect, refuse_connect_by
from holdfast.spark.looking_on import onlooker
from holdfast.spark.running import RunningJob
from holdfast.spark.stop_signals import stopping_on_signals, take_signals_back
from holdfast.spark.uncaught import explain_uncaught
from holdfast.spark.watchdog import Watchdog
from holdfast.workdir.factory import default_work, local_place, work_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

Pipeline: TypeAlias = "Callable[[SparkSession], DataFrame | DataStreamWriter] | DataStreamWriter"


def start(
    build_or_writer: Pipeline,
    *,
    job: str,
    home: str,
    sink: Sink | None = None,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> RunningJob:
    """Recover the job, start its query, supervise it, and return without waiting for its end.

    `build_or_writer` is a function from a SparkSession to a streaming DataFrame (or to a DataStreamWriter), or a
    DataStreamWriter itself; a writer's own sink gets its rows exactly once if it knows batch ids, else at least once.
    """
    return start_stepwise(build_or_writer, job, home, sink, Settings.merged(settings, options), no_step)


def run(
    build: Pipeline,
    *,
    job: str,
    home: str,
    sink: Sink | None = None,
    settings: Settings | None = None,
    **options: Unpack[Options],
) -> None:
    """As `start`, then wait until the job ends. SIGTERM and SIGINT stop it cleanly, with a last checkpoint.

    Raises the error that ended the job: `OwnedByAnotherRun` when it may not start, `Incompatible` when the query does
    not fit its checkpoint, `Fenced` when another run took it over, `JobFailed` when it failed permanently. When the
    caller does not catch it, the process ends with the message and the exit code of `holdfast run`.
    """
    explain_uncaught()
    settings = Settings.merged(settings, options)
    with stopping_on_signals(settings.stop_timeout_s) as signals, about(job_name(job)):
        try:
            running = start(build, job=job, home=home, sink=sink, settings=settings)
        except (StopAsked, KeyboardInterrupt):
            log.info("stopped before the query ran; the next start resumes where the job was")
            return
        signals.stop_with(running.begin_stop)
        try:
            with onlooker()(running):
                while not running.await_termination("1s"):
                    pass
        finally:
            log.info("%s", last_words(running.status()))


def start_stepwise(
    build: Pipeline, job: str, home: str, sink: Sink | None, settings: Settings, step: Step
) -> RunningJob:
    """`start` with a hook between any two steps, for tests that crash there."""
    name = job_name(job)
    watchdog = Watchdog.of(os.environ, os.getpid())
    around = replace(Environment.real(step, settings.identity_in(os.environ)), alive=watchdog.alive)
    with about(name), still_saying(around.clock), watchdog.while_it_starts():
        return _started(build, name, home, sink, settings, around)


def _started(
    build: Pipeline, name: JobName, home: str, sink: Sink | None, settings: Settings, around: Environment
) -> RunningJob:
    if not isinstance(home, str) or not home:
        raise InvalidSettings.of("home", home, "must be the URL of a store", hint="home='file:///var/lib/holdfast'")
    if sink is not None and not callable(getattr(sink, "stage", None)):
        raise InvalidSettings.of("sink", sink, "must be a sink such as holdfast.sinks.Delta('/data/orders')")
    receivers = receivers_of(settings.alarms)
    if settings.metrics_port is not None:
        metrics_of(list)  # refuses where prometheus-client is missing
    if settings.traces_url is not None:
        require_traces()
    if settings.commit_offsets_to is not None:
        require_client()
    _require_pipeline(build)
    _require_jvm(build, settings)
    _require_output_mode(sink, settings.output_mode)
    work = work_directory(settings.work) if settings.work is not None else default_work(home)
    begin_step("reading the job's journal")
    described = sink.describe() if sink is not None else None
    with phase("preflight"):
        location = preflight(
            name, home.rstrip("/") or home, work, settings, around, described, _state_file(name, home, settings)
        )

    # Only now: preflight refuses a job that another run owns, before Spark spends seconds on its start.
    try:
        with phase("imports"):
            from holdfast.spark.carrying import carrier_for
            from holdfast.spark.object_work import make_safe
            from holdfast.spark.query import SparkQuery, built_by
            from holdfast.spark.query_facts import frame_and_mode
            from holdfast.spark.runnable import require_runnable
    except ImportError as error:
        raise InvalidSettings(f"could not load PySpark: {error}", hint="pip install 'holdfast-spark[spark]'") from error
    spark = settings.spark or _new_session(name, settings.spark_log)
    take_signals_back()
    log.info("Spark %s runs as application %s", spark.version, spark.sparkContext.applicationId)
    enter_step("building the query")
    try:
        with phase("building the query"):
            built = built_by(build, spark, sink)
    except Exception as error:
        if isinstance(error, HoldfastError):
            raise
        # The user's code failed, not the settings. What it depends on may work at the next start.
        failure = failure_of_start(error)
        raise JobFailed(f"could not build the pipeline: {failure.message}", hint=failure.hint) from error
    refuse_connect(built)
    make_safe(frame_and_mode(built, settings.output_mode)[0].sparkSession, work)
    require_runnable(built, settings.output_mode, begins=location.begins)
    carry = carrier_for(spark, location)
    query = SparkQuery(spark, name, built, sink, settings, around.step, settings.sink_position)
    if settings.commit_offsets_to is not None and not query.kafka_inputs():
        rule = "commits offsets of Kafka sources, and this query has none"
        raise InvalidSettings.of("commit_offsets_to", settings.commit_offsets_to, rule)
    return RunningJob(location, query, carry, receivers)


def _state_file(name: JobName, home: str, settings: Settings) -> Path | None:
    try:
        return local_place(settings.work, home) / name / STATE_FILE
    except InvalidSettings:  # the work directory is on HDFS, and this user has no local directory
        return None


def _new_session(name: JobName, spark_log: str | Path | None) -> SparkSession:
    from holdfast.spark.session import session_for

    if spark_log is None or str(spark_log) == "-":
        begin_step("starting Spark")
        return session_for(name)
    begin_step(f"starting Spark, whose own output goes to {spark_log}")
    return session_for(name, Path(spark_log).absolute())


def default_spark_log(job: str, home: str, work: str | Path | None) -> Path:
    """Beside the job's work directory, or where that would be if it were local."""
    return local_place(work, home) / f"{job}.spark.log"


def _require_pipeline(build: object) -> None:
    if inspect.iscoroutinefunction(build):
        raise InvalidSettings(
            f"could not use {build.__name__}: it is an `async def`, which would never run",
            hint="use def instead of async def; it is called once, and returns a streaming DataFrame",
        )
    if not callable(build) and not hasattr(build, "start"):
        raise InvalidSettings.of(
            "build", build, "must be a function from a SparkSession to a streaming DataFrame, or a DataStreamWriter"
        )


def _require_jvm(build: Pipeline, settings: Settings) -> None:
    refuse_connect(settings.spark, build)
    if settings.spark is None:
        refuse_connect_by()


_REPLACES = {"update": "replaces rows by their key", "complete": "overwrites the whole table"}


def _require_output_mode(sink: Sink | None, mode: str) -> None:
    """A sink that only appends would keep old rows of a result visible beside the new ones, without an error."""
    if sink is not None and mode not in output_modes(sink):
        raise InvalidSettings.of(
            "output_mode",
            mode,
            f"{sink.describe()} adds the rows of each batch to the earlier ones, so it supports only append",
            hint="group by a window and append its final rows; or let the pipeline return a DataStreamWriter whose "
            f"foreachBatch {_REPLACES.get(mode, 'writes')}, so that a batch written twice after a crash does no harm",
        )
