"""`holdfast run FILE[:FUNCTION]`: a pipeline file as a supervised job.

The order matters: a wrong option, or a job that is owned, is reported before the file is loaded, and an error in the
file before anything is written. `holdfast.run` starts Spark once it knows that the job is free.
"""

import faulthandler
import inspect
import os
import shlex
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import Annotated, Any

import typer

from holdfast.cli.logs import log_to_standard_error
from holdfast.cli.observing import observe, refuse_if_owned
from holdfast.cli.options import AlarmUrls, AsJson, Home
from holdfast.cli.output import messages, print_json, print_message, standard_output_kept_clean
from holdfast.cli.pipeline_file import PipelineReference, load_pipeline
from holdfast.cli.progress import byte_progress
from holdfast.cli.requirements import require_java_and_packages
from holdfast.errors import Incompatible, InvalidSettings, StopAsked
from holdfast.identifiers import job_name
from holdfast.notifying.channels import receivers_of
from holdfast.repository.views import job_status
from holdfast.runtime.progress import showing_with
from holdfast.settings import Settings
from holdfast.spark.stop_signals import stopping_on_signals

OPTION_HELP = {
    "work": "Where the work directories are: a path, or hdfs://host:port/path. Default: below your data directory.",
    "output_mode": "append, update or complete.",
    "trigger": "When batches run: a processing time such as 10s, available-now, or once.",
    "interval": "Time between two checkpoints.",
    "timeout": "A checkpoint that takes longer fails.",
    "min_pause": "Minimum time from the end of one checkpoint to the start of the next.",
    "max_concurrent": "Maximum number of checkpoints in progress.",
    "tolerable_failures": "How many consecutive failures are tolerated.",
    "on_exceeded": "After more: alert (the pipeline keeps running) or fail (the job stops).",
    "retained": "Keep the newest N completed checkpoints.",
    "keep_hourly": "Also keep the newest checkpoint of each of the last N hours.",
    "keep_daily": "Also keep the newest checkpoint of each of the last N days.",
    "grace": "How long the objects of a retired checkpoint stay, for restores that still read it.",
    "deletes_per_second": "How many objects are deleted per second.",
    "on_conflict": "If a live run owns the job: refuse or takeover.",
    "identity": "A name that only one process has at a time; its next start takes over at once. Or HOLDFAST_IDENTITY.",
    "force": "Start even if the query differs so much that Spark fails or computes wrong results.",
    "from_savepoint": "Go back to this savepoint, once; the sink is rewound to it.",
    "from_checkpoint": "Go back to this checkpoint, once.",
    "new_life": "Start over, although the work directory or the sink belong to an earlier life of this job.",
    "accept_older_home": "Resume from a home that was restored from a backup; the sink is rewound to it.",
    "accept_sink": "Continue with a sink that was restored, replaced or emptied since the last run.",
    "plans": "For your own writer: record what each batch reads before it is written: prefer, require (wait) or off.",
    "recovery_target": "Where batches are planned: how long a recovery may take, at most; or off.",
    "publish": "When readers see a batch: with its checkpoint, or with the batch itself.",
    "commit_offsets_to": "A Kafka consumer group that gets the offsets of each completed checkpoint, for lag tools.",
    "repeats": "For your own writer: refuse a start that may make it skip rows, or accept, if it skips none.",
    "restart_delay": "Delay before the first restart of a failed query; doubles up to a minute.",
    "restart_attempts": "Consecutive restarts without a completed batch before the job fails permanently.",
    "restart_same_error": "Consecutive identical errors of the pipeline's code before the job fails permanently.",
    "heartbeat": "How often the owner writes its heartbeat.",
    "parallelism": "Maximum number of threads, or tasks on executors, that copy shards.",
    "carrier": "What copies shards: driver, executors, or auto (executors on a cluster).",
    "bandwidth": "Maximum upload rate over all machines, such as 100MB/s.",
    "scrub": "Read and verify every retained object once in this period, such as 7d; or off.",
    "stop_timeout": "How long a stop may take; the next start finishes what is left.",
    "spark_log": "A file for the output of Spark; - for standard error. Default: WORK/JOB.spark.log.",
    "metrics_port": "Serve metrics for Prometheus at this port.",
    "metrics_address": "The address to serve metrics at; 0.0.0.0 for every one of this host.",
    "alive_url": "A URL that is called once a minute while all is well: a dead man's switch.",
    "storage_deadline": "How long a call to a remote home is retried before it fails.",
}
"""Every field of Settings that can be set on the command line."""

_METAVARS = {"int": "N", "int | None": "N", "Duration": "DURATION"}
_WHOLE_NUMBERS = ("int", "int | None")

File = Annotated[str, typer.Argument(metavar="FILE[:FUNCTION]", show_default=False, help="The pipeline file.")]
OptionalJob = Annotated[
    str | None,
    typer.Option(
        "--job", envvar="HOLDFAST_JOB", metavar="NAME", show_default=False, help="Default: the function's name."
    ),
]
SinkUrl = Annotated[
    str | None,
    typer.Option("--sink", metavar="URL", show_default=False, help="Where the output goes, e.g. delta:/data/orders."),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", show_default=False, help="A Spark setting; may be repeated."),
]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", show_default=False, help="Spark's master.")]


def run_pipeline(
    file: File,
    home: Home,
    job: OptionalJob = None,
    sink: SinkUrl = None,
    conf: SparkConf = None,
    master: Master = None,
    alarm: AlarmUrls = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Run a pipeline file as a supervised job.

    Recovers, starts the query, restarts it when it fails. SIGTERM and Ctrl-C stop it with a final checkpoint.
    """
    settings = _settings({**options, "alarms": receivers_of(alarm or ())})
    if "WATCHDOG_USEC" in os.environ:
        faulthandler.enable(2)  # a stuck process is ended with SIGABRT, and prints its stack
    with stopping_on_signals(settings.stop_timeout_s, to_the_end=True):
        try:
            _run(PipelineReference.parse(file), home, job, sink, conf or (), master, as_json, settings)
        except (StopAsked, KeyboardInterrupt):
            print_message("holdfast: stopped before the job was changed")


def _settings(options: Mapping[str, Any]) -> Settings:
    return Settings.merged(None, {name: value for name, value in options.items() if value is not None})


def _run(
    reference: PipelineReference,
    home: str,
    job: str | None,
    sink: str | None,
    conf: Sequence[str],
    master: str | None,
    as_json: bool,
    settings: Settings,
) -> None:
    expected_job = job or reference.function
    if expected_job is not None:
        job_name(expected_job)
    identity = settings.identity_in(os.environ)
    add_spark_arguments(os.environ, master, conf)
    if expected_job is not None and settings.on_conflict == "refuse":
        # `holdfast.run` checks again. Checked here, a refusal does not wait for the user's file and PySpark to load.
        refuse_if_owned(home, job_name(expected_job), identity)
    parsed_sink = _sink(sink)
    require_java_and_packages("run the pipeline", {"pyspark": "spark"})
    with standard_output_kept_clean() if as_json else nullcontext(), bars_on_a_terminal():
        name, build = load_pipeline(reference, job)
        job = job_name(job or name)
        log_to_standard_error()

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
        print_json(_refused(home, job, refusal) if refusal else job_status(observe(home, job)))
    if refusal:
        raise refusal


def bars_on_a_terminal() -> AbstractContextManager[None]:
    return showing_with(byte_progress) if messages().is_terminal else nullcontext()


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


def _with_settings_options(command: Callable[..., None], help_by_field: Mapping[str, str]) -> Callable[..., None]:
    """`command` with one option per field of Settings, as typer reads them: from its signature."""
    signature = inspect.signature(command)
    declared = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    generated = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(field.name, field.type, text)
        )
        for field in fields(Settings)
        if (text := help_by_field.get(field.name))
    ]
    parameters = [*declared, *generated]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _option(name: str, written_type: Any, text: str) -> Any:
    if written_type == "bool":
        return Annotated[bool | None, typer.Option(f"--{name.replace('_', '-')}", show_default=False, help=text)]
    default = Settings.__dataclass_fields__[name].default
    shown = "" if default is None else f" Default: {default}."
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar=_METAVARS.get(written_type, "VALUE"),
        show_default=False,
        help=text + shown,
    )
    return Annotated[int | None if written_type in _WHOLE_NUMBERS else str | None, option]


run = _with_settings_options(run_pipeline, OPTION_HELP)
