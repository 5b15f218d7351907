"""Every option of `run` and `start`, checked before anything else happens."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from holdfast.alarm import Receiver
from holdfast.errors import InvalidSettings
from holdfast.identifiers import identity_name, savepoint_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_DURATION_RULE = "must be a duration such as '500ms', '10s', '5m', '1h', or a timedelta"

_BYTES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|KiB|MiB|GiB)/s")

_WEB_URL = re.compile(r"https?://[^/\s]+")

Duration = str | timedelta


def seconds(field_name: str, value: object, *, least: float = 0.0) -> float:
    """A duration as seconds; refuses anything below `least`."""
    if isinstance(value, timedelta):
        result = value.total_seconds()
    elif isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        result = float(match[1]) * _UNITS[match[2]]
    else:
        raise InvalidSettings.of(field_name, value, _DURATION_RULE)
    if result < least:
        raise InvalidSettings.of(field_name, value, f"must be at least {_shown(least)}")
    return result


def bytes_per_second(field_name: str, value: object) -> float:
    if isinstance(value, str) and (match := _RATE.fullmatch(value.strip())) and float(match[1]) > 0:
        return float(match[1]) * _BYTES[match[2]]
    raise InvalidSettings.of(field_name, value, "must be a rate such as '100MB/s', '512KiB/s' or '1GB/s'")


def _shown(value: float) -> str:
    return f"{value * 1000:g}ms" if value < 1 else f"{value:g}s"


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What a run is told, as plain data. Durations are strings such as "10s" or timedeltas; `…_s` are their seconds."""

    work: str | Path | None = None
    output_mode: Literal["append", "update", "complete"] = "append"
    trigger: str | Mapping[str, str | bool] | None = None
    interval: Duration = "60s"
    timeout: Duration = "10m"
    min_pause: Duration = "0s"
    max_concurrent: int = 1
    tolerable_failures: int = 3
    on_exceeded: Literal["alert", "fail"] = "alert"
    retained: int = 10
    keep_hourly: int = 0
    """Besides the newest `retained`, keep the newest checkpoint of each of the last N hours, in UTC."""
    keep_daily: int = 0
    """The same for each of the last N days."""
    grace: Duration = "10m"
    """How long the objects of a retired checkpoint stay, for restores that are still reading it."""
    deletes_per_second: int = 100
    """How many objects the background deletion deletes per second."""
    on_conflict: Literal["refuse", "takeover"] = "refuse"
    identity: str | None = None
    """A name that only one process has at a time, such as a pod's. A process that starts under the same name replaces
    the previous one and takes over the job at once, without waiting for the heartbeat to become stale."""
    force: bool = False
    """Start even if the query differs from its checkpoint in a way that makes Spark fail or silently compute wrong
    results."""
    from_savepoint: str | None = None
    from_checkpoint: int | None = None
    """Go back to this checkpoint, once: another start with the same option does not go back again."""
    new_life: bool = False
    """Start with a new lineage although the work directory or the sink belong to another one of this job. The source is
    read from its beginning, and the sink keeps its rows: rows that are read again are in it twice."""
    accept_older_home: bool = False
    """Resume from a home that is older than the work directory or the sink, because it was restored from a backup. The
    sink is rewound to the home's newest checkpoint."""
    accept_sink: bool = False
    """The sink was restored, replaced or emptied on purpose: continue from its current content."""
    accept_source: bool = False
    """The topics of a Kafka source are on another cluster, or were created again, with the same records at the same
    offsets: continue with the offsets of the checkpoint."""
    repeats: Literal["refuse", "accept"] = "refuse"
    """`accept`: a writer of your own writes rows also under batch ids that it has seen before; it skips none."""
    plans: Literal["prefer", "require", "off"] = "prefer"
    """For a writer of your own: make what a batch reads durable before the writer sees the batch, so that it can be
    repeated after a lost disk. `prefer`: the batch continues if the home does not answer soon. `require`: it waits."""
    recovery_target: Duration = "5m"
    """Where batches are planned: a checkpoint is taken before the interval has passed when repeating the batches behind
    the newest one would take a recovery on an empty disk longer than this; or "off"."""
    publish: Literal["checkpoint", "batch"] = "checkpoint"
    """When holdfast's sinks show a batch to readers: with the checkpoint that contains it, or when it is committed and
    its plan is durable."""
    commit_offsets_to: str | None = None
    """A Kafka consumer group. The offsets of each completed checkpoint are committed to it in the background, for tools
    that show lag; nothing reads them back."""
    restart_delay: Duration = "1s"
    """The delay before the first restart of a failed query; it doubles with each further one, up to a minute."""
    restart_attempts: int = 10
    """How many restarts in a row, without a completed batch in between, before the job fails permanently."""
    restart_same_error: int = 3
    """After this many failures in a row by the same error of the pipeline's own code, or by input that was deleted
    before it was read, without a completed batch in between, the job fails permanently."""
    heartbeat: Duration = "5s"
    """How often the owner writes its heartbeat; after six missed ones another run may take over."""
    parallelism: int = 4
    """The maximum number of threads, or tasks on executors, that copy shards."""
    carrier: Literal["auto", "driver", "executors"] = "auto"
    """What copies shards: threads of the driver, or tasks on executors. With `auto`, on a cluster, executors copy what
    is large enough for a task, and the driver copies the rest."""
    bandwidth: str | None = None
    """The maximum rate of uploads to the home over all machines, such as "100MB/s"."""
    scrub: Duration = "off"
    """The period in which every retained object of the home is read and verified once, in the background; or "off"."""
    storage_deadline: Duration = "30s"
    """How long one call to a remote home is retried before it counts as failed. A small request times out after a third
    of it, one part of an upload after twice of it."""
    stop_timeout: Duration = "2m"
    """How long a stop may take, from the signal to the end of the process. The next start finishes what is left; the
    output is still exact."""
    metrics_port: int | None = None
    """Serve metrics for Prometheus at `http://ADDRESS:PORT/metrics`; 0 for any free port."""
    metrics_address: str = "127.0.0.1"
    """The address to serve metrics at; "0.0.0.0" for every one of this host."""
    alive_url: str | None = None
    """A dead man's switch: this URL is called once a minute while the run makes progress and no alarm is critical."""
    traces_url: str | None = None
    """A collector of OpenTelemetry that takes OTLP over HTTP, such as `http://collector:4318`: each checkpoint is sent
    to it as a trace."""
    spark_log: str | Path | None = None
    """A file for the output of Spark, when holdfast starts the JVM; None or "-": standard error of this process."""

    def __post_init__(self) -> None:
        for name, least in _DURATION_LEAST.items():
            seconds(name, getattr(self, name), least=least)
        for name, least_count in _COUNT_LEAST.items():
            _require_count(name, getattr(self, name), least_count)
        for name, allowed in CHOICES.items():
            _require_choice(name, getattr(self, name), allowed)
        _ = self.scrub_s, self.bytes_per_second, self.recovery_target_s  # raises when they are wrong
        _require_trigger(self.trigger)
        for name in _SWITCHES:
            _require_switch(name, getattr(self, name))
        if self.identity is not None:
            identity_name(self.identity)
        _require_start(self.from_savepoint, self.from_checkpoint)
        if self.work is not None and not isinstance(self.work, str | Path):
            raise InvalidSettings.of("work", self.work, "must be a path")
        if self.spark_log is not None and (not isinstance(self.spark_log, str | Path) or not str(self.spark_log)):
            raise InvalidSettings.of("spark_log", self.spark_log, "must be the path of a file, or -")
        _require_group(self.commit_offsets_to)
        if self.metrics_port is not None:
            _require_count("metrics_port", self.metrics_port, 0)
        for name in ("alive_url", "traces_url"):
            _require_web_url(name, getattr(self, name))

    @property
    def interval_s(self) -> float:
        return seconds("interval", self.interval)

    @property
    def timeout_s(self) -> float:
        return seconds("timeout", self.timeout)

    @property
    def min_pause_s(self) -> float:
        return seconds("min_pause", self.min_pause)

    @property
    def grace_s(self) -> float:
        return seconds("grace", self.grace)

    @property
    def restart_delay_s(self) -> float:
        return seconds("restart_delay", self.restart_delay)

    @property
    def heartbeat_s(self) -> float:
        return seconds("heartbeat", self.heartbeat)

    @property
    def storage_deadline_s(self) -> float:
        return seconds("storage_deadline", self.storage_deadline)

    @property
    def stop_timeout_s(self) -> float:
        return seconds("stop_timeout", self.stop_timeout)

    def identity_in(self, environment: Mapping[str, str]) -> str | None:
        """`identity`, else the one in the environment."""
        given = self.identity or environment.get("HOLDFAST_IDENTITY") or None
        return None if given is None else identity_name(given)

    @property
    def scrub_s(self) -> float | None:
        """The period of the scrub, None when it is off."""
        return None if self.scrub == "off" else seconds("scrub", self.scrub, least=1.0)

    @property
    def recovery_target_s(self) -> float | None:
        """None when it is off."""
        off = self.recovery_target == "off"
        return None if off else seconds("recovery_target", self.recovery_target, least=1.0)

    @property
    def bytes_per_second(self) -> float | None:
        """Of copying, None for no limit."""
        return None if self.bandwidth is None else bytes_per_second("bandwidth", self.bandwidth)


@dataclass(frozen=True, kw_only=True)
class Settings(RunSettings):
    """Every option of `run` and `start`: the data, and the components that a run works with."""

    spark: SparkSession | None = None
    sink_position: Callable[[], int | None] | None = None
    """For a writer of your own: returns the newest batch id that it has written, None for none. Called before each
    start."""
    alarms: Sequence[Receiver | str] = field(default=())
    """Who gets the alarms. A URL (`https://` for a webhook, or one that apprise knows) gets a message when an alarm
    begins, becomes critical and is over. A function is called with each report of an alarm, in a thread of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.alarms, list | tuple) or not all(map(_takes_alarms, self.alarms)):
            raise InvalidSettings.of("alarms", self.alarms, "must be a list of URLs and callables")
        object.__setattr__(self, "alarms", tuple(self.alarms))
        if self.sink_position is not None and not callable(self.sink_position):
            raise InvalidSettings.of("sink_position", self.sink_position, "must be a function without parameters")

    @classmethod
    def merged(cls, base: Settings | None, options: Mapping[str, object]) -> Settings:
        """`base` with `options` over it; the error for an unknown option names the most similar one."""
        names = [f.name for f in dataclasses.fields(cls)]
        for name in options:
            if name not in names:
                raise InvalidSettings(f"there is no option {name!r}", hint=_instead_of(name, names))
        if base is not None and not isinstance(base, cls):
            raise InvalidSettings.of("settings", base, "must be a holdfast.Settings")
        return dataclasses.replace(base or cls(), **cast(dict[str, Any], dict(options)))


def _instead_of(name: str, names: Sequence[str]) -> str:
    if name in ("conf", "config") or name.startswith("spark."):  # as of `holdfast run --conf`, which makes the session
        return "set options of Spark on a session, and pass it: spark=SparkSession.builder.config(…).getOrCreate()"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"options are: {', '.join(names)}"


def _takes_alarms(receiver: object) -> bool:
    return callable(receiver) or (isinstance(receiver, str) and "://" in receiver)


_DURATION_LEAST = {
    "interval": 0.01,
    "timeout": 0.01,
    "min_pause": 0.0,
    "restart_delay": 0.0,
    "heartbeat": 0.1,
    "storage_deadline": 0.0,
    "grace": 0.0,
    "stop_timeout": 1.0,
}
_COUNT_LEAST = {
    "max_concurrent": 1,
    "tolerable_failures": 0,
    "retained": 1,
    "keep_hourly": 0,
    "keep_daily": 0,
    "deletes_per_second": 1,
    "restart_attempts": 0,
    "restart_same_error": 1,
    "parallelism": 1,
}
CHOICES = {
    "output_mode": ("append", "update", "complete"),
    "on_exceeded": ("alert", "fail"),
    "on_conflict": ("refuse", "takeover"),
    "carrier": ("auto", "driver", "executors"),
    "repeats": ("refuse", "accept"),
    "plans": ("prefer", "require", "off"),
    "publish": ("checkpoint", "batch"),
}
_SWITCHES = ("force", "new_life", "accept_older_home", "accept_sink", "accept_source")
_GROUP_MOST = 255
_TRIGGERS = {"processingTime": str, "availableNow": bool, "once": bool}


def _require_web_url(name: str, value: str | None) -> None:
    if value is not None and not _WEB_URL.match(str(value)):
        raise InvalidSettings.of(name, value, "must be an http:// or https:// URL")


def _require_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidSettings.of(name, value, f"must be a whole number of at least {least}")


def _require_switch(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidSettings.of(name, value, "must be True or False")


def _require_group(value: object) -> None:
    if value is not None and not (isinstance(value, str) and value.strip() and len(value) <= _GROUP_MOST):
        rule = f"must be the name of a Kafka consumer group, of at most {_GROUP_MOST} characters"
        raise InvalidSettings.of("commit_offsets_to", value, rule)


def _require_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidSettings.of(name, value, f"must be one of {', '.join(allowed)}")


def _require_start(savepoint: object, checkpoint: object) -> None:
    if savepoint is not None and checkpoint is not None:
        raise InvalidSettings("from_savepoint and from_checkpoint exclude each other", hint="give one of them")
    if savepoint is not None:
        savepoint_name(savepoint, "from_savepoint")
    if checkpoint is not None:
        _require_count("from_checkpoint", checkpoint, 1)


def _require_trigger(value: object) -> None:
    rule = "must be a processing time such as '10s', 'available-now', 'once', or Spark's keywords as a mapping"
    if value is None or value in ("available-now", "once"):
        return
    if isinstance(value, str):
        seconds("trigger", value)
        return
    if not isinstance(value, Mapping) or len(value) != 1:
        raise InvalidSettings.of("trigger", value, rule)
    (name, argument), *_ = value.items()
    if name not in _TRIGGERS or not isinstance(argument, _TRIGGERS[name]):
        raise InvalidSettings.of("trigger", value, rule)
