"""The options of `run` and `start` for editors and type checkers. `Settings` documents and checks each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from holdfast.alarm import Receiver
from holdfast.settings import Duration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Options(TypedDict, total=False):
    spark: SparkSession | None
    work: str | Path | None
    output_mode: Literal["append", "update", "complete"]
    trigger: str | Mapping[str, str | bool] | None
    interval: Duration
    timeout: Duration
    min_pause: Duration
    max_concurrent: int
    tolerable_failures: int
    on_exceeded: Literal["alert", "fail"]
    retained: int
    keep_hourly: int
    keep_daily: int
    grace: Duration
    deletes_per_second: int
    on_conflict: Literal["refuse", "takeover"]
    identity: str | None
    force: bool
    from_savepoint: str | None
    from_checkpoint: int | None
    new_life: bool
    accept_older_home: bool
    accept_sink: bool
    accept_source: bool
    sink_position: Callable[[], int | None] | None
    repeats: Literal["refuse", "accept"]
    plans: Literal["prefer", "require", "off"]
    recovery_target: Duration
    publish: Literal["checkpoint", "batch"]
    commit_offsets_to: str | None
    restart_delay: Duration
    restart_attempts: int
    restart_same_error: int
    heartbeat: Duration
    parallelism: int
    carrier: Literal["auto", "driver", "executors"]
    bandwidth: str | None
    scrub: Duration
    storage_deadline: Duration
    stop_timeout: Duration
    spark_log: str | Path | None
    metrics_port: int | None
    metrics_address: str
    alive_url: str | None
    traces_url: str | None
    alarms: Sequence[Receiver | str]
