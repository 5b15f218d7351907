"""The options of `holdfast run` that are fields of Settings: what each says, in which group of the help it stands."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from holdfast.settings import CHOICES, Settings

FIRST = "Options that matter"

GROUPS: Mapping[str, Mapping[str, str]] = {
    FIRST: {
        "interval": "Time between two checkpoints.",
        "work": "Where the work directories are: a path, hdfs://host:port/path, or s3a://bucket/path. "
        "Default: below your data directory.",
        "trigger": "When batches run: a processing time such as 10s, available-now, or once.",
        "retained": "Keep the newest N completed checkpoints.",
    },
    "Output": {
        "output_mode": "append, update or complete.",
        "publish": "When readers see a batch: with its checkpoint, or with the batch itself.",
        "plans": "Record what batches read: before your own writer gets them (require waits), else in checkpoints.",
        "commit_offsets_to": "A Kafka consumer group that gets the offsets of each checkpoint, for lag tools.",
        "repeats": "For your own writer: refuse a start that may make it skip rows, or accept, if it skips none.",
    },
    "For one start": {
        "from_savepoint": "Go back to this savepoint, once; the sink is rewound to it.",
        "from_checkpoint": "Go back to this checkpoint, once.",
        "force": "Start even if the query differs so much that Spark fails or computes wrong results.",
        "new_life": "Start over, although the work directory or the sink belongs to an earlier life of this job.",
        "accept_older_home": "Resume from a home that was restored from a backup; the sink is rewound to it.",
        "accept_sink": "Continue with a sink that was restored, replaced or emptied since the last run.",
        "accept_source": "Continue with recreated topics, or those of another cluster: same records, same offsets.",
    },
    "Checkpoints": {
        "timeout": "A checkpoint that takes longer fails.",
        "recovery_target": "How long a recovery may take, at most, with the batches that it repeats; or off.",
        "min_pause": "Minimum time from the end of one checkpoint to the start of the next.",
        "max_concurrent": "Maximum number of checkpoints in progress.",
        "tolerable_failures": "How many consecutive failures are tolerated.",
        "on_exceeded": "After more failures: alert (the pipeline keeps running) or fail (the job stops).",
        "keep_hourly": "Also keep the newest checkpoint of each of the last N hours.",
        "keep_daily": "Also keep the newest checkpoint of each of the last N days.",
        "grace": "How long the objects of a retired checkpoint stay, for restores that still read it.",
        "scrub": "Read and verify every retained object once in this period, such as 7d; or off.",
    },
    "Restarts, stops and owners": {
        "restart_delay": "Delay before the first restart of a failed query; doubles up to a minute.",
        "restart_attempts": "Consecutive restarts without a completed batch before the job fails permanently.",
        "restart_same_error": "Consecutive identical errors of the pipeline's code before the job fails permanently.",
        "stop_timeout": "How long a stop may take; the next start finishes what is left.",
        "on_conflict": "If a live run owns the job: refuse or takeover.",
        "identity": "A name that only one process has at a time; its next start takes over at once.",
        "heartbeat": "How often the owner writes its heartbeat.",
    },
    "Copying": {
        "parallelism": "Maximum number of threads, or tasks on executors, that copy shards.",
        "carrier": "What copies shards: driver, executors, or auto (executors on a cluster).",
        "bandwidth": "Maximum upload rate over all machines, such as 100MB/s.",
        "storage_deadline": "How long a call to a remote home is retried before it fails.",
        "deletes_per_second": "How many objects are deleted per second.",
    },
    "Watching": {
        "metrics_port": "Serve metrics for Prometheus at this port.",
        "metrics_address": "The address to serve metrics at; 0.0.0.0 for all addresses of this host.",
        "alive_url": "A URL that is called once a minute while all is well: a dead man's switch.",
        "traces_url": "Send each checkpoint as a trace to this collector, by OTLP over HTTP.",
        "spark_log": "A file for the output of Spark; - for standard error. Default: WORK/JOB.spark.log.",
    },
}
OPTION_HELP = {name: text for group in GROUPS.values() for name, text in group.items()}
"""Every field of Settings that can be set on the command line."""

_METAVARS = {
    "work": "DIR",
    "trigger": "10s|available-now|once",
    "from_savepoint": "NAME",
    "from_checkpoint": "ID",
    "identity": "NAME",
    "commit_offsets_to": "GROUP",
    "recovery_target": "DURATION|off",
    "bandwidth": "RATE",
    "scrub": "DURATION|off",
    "metrics_port": "PORT",
    "metrics_address": "ADDRESS",
    "alive_url": "URL",
    "traces_url": "URL",
    "spark_log": "FILE",
}
_OF_TYPES = {"int": "N", "int | None": "N", "Duration": "DURATION"}
_WHOLE_NUMBERS = ("int", "int | None")


def variable_of(option: str) -> str:
    """The environment variable of an option of `run`."""
    return f"HOLDFAST_{option.upper()}"


def choices_of(name: str) -> tuple[str, ...]:
    """The values that a field takes, if they can be listed."""
    return CHOICES.get(name, ())


def with_settings_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with one option per field of Settings, as typer reads them: from its signature."""
    return with_options_of(OPTION_HELP, command)


def with_options_of(names: Collection[str], command: Callable[..., None]) -> Callable[..., None]:
    """With those fields of Settings only."""
    signature = inspect.signature(command)
    declared = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters = [*declared, *(option for option in _generated() if option.name in names)]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _generated() -> Iterator[inspect.Parameter]:
    types = {field.name: field.type for field in fields(Settings)}
    for group, options in GROUPS.items():
        for name, text in options.items():
            annotation = _option(name, types[name], text, group)
            yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _option(name: str, written_type: Any, text: str, group: str) -> Any:
    flag, variable = f"--{name.replace('_', '-')}", variable_of(name)
    if written_type == "bool":
        switch = typer.Option(
            flag, envvar=variable, show_envvar=False, show_default=False, rich_help_panel=group, help=text
        )
        return Annotated[bool | None, switch]
    default = Settings.__dataclass_fields__[name].default
    choices = choices_of(name)
    option = typer.Option(
        flag,
        envvar=variable,
        show_envvar=False,
        metavar=_METAVARS.get(name) or _OF_TYPES.get(written_type) or "|".join(choices),
        show_default=False,
        rich_help_panel=group,
        autocompletion=lambda: list(choices),
        help=text + ("" if default is None else f" Default: {default}."),
    )
    return Annotated[int | None if written_type in _WHOLE_NUMBERS else str | None, option]
