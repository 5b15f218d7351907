"""`holdfast run FILE[:FUNCTION]`: a pipeline file as a supervised job.

The order matters: a wrong option, or a job that is owned, is reported before the file is loaded, and an error in the
file before anything is written. `holdfast.run` starts Spark once it knows that the job is free.
"""

import faulthandler
import os
import shlex
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from holdfast.cli.configuration import NAME as TOML
from holdfast.cli.configuration import Configuration, settings_in, spark_settings
from holdfast.cli.logs import FORMATS as LOG_FORMATS
from holdfast.cli.logs import log_to_standard_error
from holdfast.cli.observing import observe, refuse_if_owned
from holdfast.cli.options import AsJson, alarm_option, home_option, job_option, marked
from holdfast.cli.output import messages, print_json, print_message, standard_output_kept_clean
from holdfast.cli.pipeline_file import PipelineReference, load_pipeline
from holdfast.cli.reference import Typed
from holdfast.cli.requirements import require_java_and_packages
from holdfast.cli.run_options import FIRST, variable_of, with_settings_options
from holdfast.cli.start_profile import as_document, profiled
from holdfast.errors import Incompatible, InvalidSettings, StopAsked
from holdfast.identifiers import job_name
from holdfast.job_log import phase
from holdfast.notifying.channels import receivers_of
from holdfast.repository.views import job_status
from holdfast.runtime.progress import showing_with
from holdfast.runtime.start_profile import StartProfile
from holdfast.settings import Settings
from holdfast.spark.stop_signals import stopping_on_signals

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE[:FUNCTION]|JOB", show_default=False, help=f"The pipeline file, or a job of {TOML} that has one."
    ),
]
RunHome = Annotated[str, home_option(FIRST)]
RunAlarms = Annotated[list[str] | None, alarm_option(FIRST)]
OptionalJob = Annotated[str | None, job_option("Default: the function's name.", FIRST, callback=marked)]


def _option(name: str, metavar: str, panel: str | None, text: str, **more: Any) -> Any:
    """Its environment variable is in docs/commands.md, not in every line of the help."""
    return typer.Option(
        f"--{name}",
        envvar=variable_of(name.replace("-", "_")),
        show_envvar=False,
        metavar=metavar,
        show_default=False,
        rich_help_panel=panel,
        help=text,
        **more,
    )


SinkUrl = Annotated[str | None, _option("sink", "URL", FIRST, "Where the output goes, e.g. delta:/data/orders.")]
SparkConf = Annotated[list[str] | None, _option("conf", "KEY=VALUE", "Spark", "A Spark setting; may be repeated.")]
Master = Annotated[str | None, _option("master", "URL", "Spark", "Spark's master.")]
LogFormat = Annotated[
    str | None,
    _option(
        "log-format",
        "|".join(LOG_FORMATS),
        None,
        "How events are logged on standard error: as text, or one JSON object per line. Default: text.",
        autocompletion=lambda: list(LOG_FORMATS),
    ),
]


ProfileStart = Annotated[
    bool,
    typer.Option(
        "--profile-start",
        envvar=variable_of("profile_start"),
        show_envvar=False,
        help="Show where the seconds go until the first batch has ended.",
    ),
]


def run_pipeline(
    ctx: typer.Context,
    file: File,
    home: RunHome,
    job: OptionalJob = None,
    sink: SinkUrl = None,
    conf: SparkConf = None,
    master: Master = None,
    alarm: RunAlarms = None,
    log_format: LogFormat = None,
    profile_start: ProfileStart = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Run a pipeline file as a supervised job.

    Recovers, starts the query, restarts it when it fails. SIGTERM and Ctrl-C stop it with a final checkpoint.
    """
    configured = ctx.find_object(Configuration) or Configuration()
    file, job = _pipeline(configured, file, job)
    reference = PipelineReference.parse(file)
    given = configured.of_run(job or reference.function)
    _require_log_format(chosen := log_format or given.get("log_format", "text"))
    settings = _settings(settings_in(given), {**options, "alarms": receivers_of(alarm or ())})
    spark = _SparkArguments(master or given.get("master"), [*spark_settings(given.get("conf")), *(conf or ())])
    if "WATCHDOG_USEC" in os.environ:
        faulthandler.enable(2)  # a stuck process is ended with SIGABRT, and prints its stack
    with stopping_on_signals(settings.stop_timeout_s, to_the_end=True):
        try:
            pipeline = _Pipeline(reference, job, home, sink or given.get("sink"), configured)
            with profiled() if profile_start else nullcontext() as profile:
                _run(pipeline, spark, as_json, settings, chosen, profile)
        except (StopAsked, KeyboardInterrupt):
            print_message("holdfast: stopped before the job was changed")


@dataclass(frozen=True)
class _SparkArguments:
    master: str | None
    conf: Sequence[str]


@dataclass(frozen=True)
class _Pipeline:
    reference: PipelineReference
    job: str | None
    home: str
    sink: str | None
    configured: Configuration


def _pipeline(configured: Configuration, file: str, job: str | None) -> tuple[str, str | None]:
    """The file and the job. A word that names a job of the configuration stands for its file."""
    if not configured.has_job(file) or Path(file).is_file():
        return file, job
    if isinstance(job, Typed) and job != file:
        raise InvalidSettings(f"two jobs are named: {file} and --job {job}", hint="holdfast run JOB, without --job")
    found = configured.file_of(file)
    if found is None:
        raise InvalidSettings(
            f"could not run job {file!r}: [jobs.{file}] of {configured.path} names no pipeline file",
            hint=f'file = "{file}.py"',
        )
    return found, file


def _settings(configured: Mapping[str, Any], options: Mapping[str, Any]) -> Settings:
    given = {name: value for name, value in options.items() if value is not None}
    return Settings.merged(None, {**configured, **given})


def _require_log_format(chosen: str) -> None:
    if chosen not in LOG_FORMATS:
        raise InvalidSettings.of("log_format", chosen, f"must be one of {', '.join(LOG_FORMATS)}")


def _run(
    pipeline: _Pipeline,
    spark: _SparkArguments,
    as_json: bool,
    settings: Settings,
    log_format: str,
    profile: StartProfile | None,
) -> None:
    reference, job, home = pipeline.reference, pipeline.job, pipeline.home
    expected_job = job or reference.function
    if expected_job is not None:
        job_name(expected_job)
    identity = settings.identity_in(os.environ)
    add_spark_arguments(os.environ, spark.master, spark.conf)
    if expected_job is not None and settings.on_conflict == "refuse":
        # `holdfast.run` checks again. Checked here, a refusal does not wait for the user's file and PySpark to load.
        with phase("ownership"):
            refuse_if_owned(home, job_name(expected_job), identity)
    parsed_sink = _sink(pipeline.sink)
    require_java_and_packages("run the pipeline", {"pyspark": "spark"})
    with standard_output_kept_clean() if as_json else nullcontext(), living_on_a_terminal():
        with phase("the pipeline's file"):
            name, build = load_pipeline(reference, job)
        _require_configured(pipeline, expected_job, name)
        job = job_name(job or name)
        log_to_standard_error(log_format)

        with phase("holdfast's modules"):
            import holdfast
            from holdfast.spark.api import default_spark_log

        if settings.spark_log is None:
            settings = replace(settings, spark_log=default_spark_log(job, home, settings.work))

        refusal: Incompatible | None = None
        try:
            holdfast.run(build, job=job, home=home, sink=parsed_sink, settings=settings)
        except Incompatible as error:
            refusal = error
    if as_json:
        document = _refused(home, job, refusal) if refusal else job_status(observe(home, job))
        print_json(document if profile is None else {**msgspec.to_builtins(document), "start": as_document(profile)})
    if refusal:
        raise refusal


def _require_configured(pipeline: _Pipeline, expected: str | None, name: str) -> None:
    """The name of a job without one is known when its file is loaded: too late for settings of its own."""
    if expected is None and pipeline.configured.has_job(name):
        raise InvalidSettings(
            f"could not run {pipeline.reference}: job {name!r} has settings in {pipeline.configured.path}, "
            "which are read before the file",
            hint=f"holdfast run {pipeline.reference} --job {name}",
        )


@contextmanager
def living_on_a_terminal() -> Iterator[None]:
    """Bars during the start, then the status of the job, below the log."""
    if not messages().is_terminal:
        yield
        return
    from holdfast.cli.run_screen import RunScreen
    from holdfast.spark.looking_on import looked_on_by

    screen = RunScreen()
    with showing_with(screen.bytes), looked_on_by(screen.watch):
        yield


def _refused(home: str, job: str, refusal: Incompatible) -> dict[str, Any]:
    return {"job": job, "home": home, "refused": True, "differences": refusal.differences}


def _sink(url: str | None) -> Any:
    if url is None:
        return None
    from holdfast.sinks import parse_sink

    return parse_sink(url)


def add_spark_arguments(environment: MutableMapping[str, str], master: str | None, conf: Sequence[str]) -> None:
    """Pass these settings to the session that is created later, including those that only apply at the JVM's start."""
    arguments = ["--master", master] if master else []
    for setting in conf:
        key, equals, _ = setting.partition("=")
        if not equals or not key.strip():
            raise InvalidSettings.of("conf", setting, "must be KEY=VALUE", hint="--conf spark.driver.memory=2g")
        arguments += ["--conf", setting]
    if arguments:
        present = shlex.split(environment.get("PYSPARK_SUBMIT_ARGS", ""))
        kept = [argument for argument in present if argument != "pyspark-shell"]
        environment["PYSPARK_SUBMIT_ARGS"] = shlex.join([*kept, *arguments, "pyspark-shell"])


run = with_settings_options(run_pipeline)
