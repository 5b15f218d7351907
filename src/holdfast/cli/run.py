"""`holdfast run FILE[:FUNCTION]`: a pipeline file as a supervised job.

The order matters: what is wrong with the command, or a job that is owned, is said before the file is loaded, and what
is wrong with the file before anything is written. `holdfast.run` starts Spark, when it knows that the job is free.
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
from holdfast.cli.options import AsJson, Home
from holdfast.cli.output import messages, print_json, print_message, standard_output_kept_clean
from holdfast.cli.pipeline_file import PipelineReference, load_pipeline
from holdfast.cli.progress import byte_progress
from holdfast.cli.requirements import require_java_and_packages
from holdfast.errors import Incompatible, InvalidSettings, StopAsked
from holdfast.identifiers import job_name
from holdfast.repository.views import job_status
from holdfast.runtime.progress import showing_with
from holdfast.settings import Settings
from holdfast.spark.stop_signals import stopping_on_signals

OPTION_HELP = {
    "work": "Where work directories live: a path, or hdfs://host:port/path. Default: below your data directory.",
    "output_mode": "append, update or complete.",
    "trigger": "When batches run: a processing time such as 10s, available-now, or once.",
    "interval": "Between two checkpoints.",
    "timeout": "After this a checkpoint that is not complete has failed.",
    "min_pause": "Least time from the end of one checkpoint to the start of the next.",
    "max_concurrent": "Checkpoints in progress at once.",
    "tolerable_failures": "Failures in a row that are tolerated.",
    "on_exceeded": "Past them: alert (the pipeline runs on) or fail (the job stops).",
    "retained": "Completed checkpoints that are kept: the newest so many.",
    "keep_hourly": "Of so many hours the newest checkpoint each is kept too.",
    "keep_daily": "Of so many days the newest checkpoint each is kept too.",
    "grace": "How long the objects of a retired checkpoint stay for whoever is restoring it.",
    "deletes_per_second": "How fast what is not needed any more is deleted.",
    "on_conflict": "When a living run owns the job: refuse or takeover.",
    "identity": "A name that only one process has at a time: its next start takes over at once. Or HOLDFAST_IDENTITY.",
    "force": "Start even if the query differs from its checkpoint in what Spark breaks on or gets wrong.",
    "from_savepoint": "Go back to this savepoint, once; the sink is rewound to it.",
    "from_checkpoint": "Go back to this checkpoint, once.",
    "new_life": "Begin anew although the work directory or the sink know another life of this job.",
    "accept_older_home": "Go on from a home that was put back from a backup; the sink is rewound to it.",
    "accept_sink": "Go on from a sink that was restored, replaced or emptied since the last run.",
    "repeats": "A writer of your own: refuse a start that may make it skip rows, or accept: it skips none.",
    "restart_delay": "Before the first restart of a query that died; doubles up to a minute.",
    "restart_attempts": "Restarts in a row without a completed batch before the job fails permanently.",
    "restart_same_error": "Identical errors in a row from the pipeline's code before the job fails permanently.",
    "heartbeat": "How often the owner shows that it is alive.",
    "parallelism": "Threads that copy shards, or tasks of executors, at most.",
    "carrier": "Who copies shards: driver, executors, or auto (executors on a cluster).",
    "bandwidth": "What copying may send to the home, over all machines, such as 100MB/s.",
    "scrub": "Read every retained object back once in this time, such as 7d; or off.",
    "stop_timeout": "How long a stop may take; what is not finished then is left to the next start.",
    "spark_log": "A file for what Spark prints; - for standard error. Default: WORK/JOB.spark.log.",
    "storage_deadline": "How long a call to a remote home is tried again before it has failed.",
}
"""Every field of Settings that a command line can give."""

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
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Run a pipeline file as a supervised job.

    Recovers, starts the query, restarts it by policy. SIGTERM and Ctrl-C stop it with a last checkpoint.
    """
    settings = _settings(options)
    if "WATCHDOG_USEC" in os.environ:
        faulthandler.enable(2)  # what is stuck is ended with SIGABRT, and says where it was
    with stopping_on_signals(settings.duration("stop_timeout"), to_the_end=True):
        try:
            _run(PipelineReference.parse(file), home, job, sink, conf or (), master, as_json, settings)
        except (StopAsked, KeyboardInterrupt):
            print_message("holdfast: stopped before the job was touched")


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
        # `holdfast.run` asks again; asked here too, the answer does not wait for the user's file and PySpark to load.
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
    """Let the session that is made later have these settings, the ones that only count at the JVM's start included."""
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
