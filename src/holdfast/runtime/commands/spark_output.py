"""How far output is that Spark's own sinks have written, from what they leave beside it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from holdfast.checkpoint.layout import newest_barrier
from holdfast.errors import Conflict, InvalidSettings
from holdfast.identifiers import BatchId
from holdfast.runtime.commands.adopting import Original
from holdfast.sinks.place import require
from holdfast.storage.durable import storage_errors
from holdfast.workdir.interface import WorkDirectory

_FILE_SINK = "_spark_metadata"
_DELTA = "_delta_log"


@dataclass(frozen=True)
class Output:
    """Output of a query."""

    writer: str
    newest: BatchId | None
    """Its newest batch; None when it has none."""


def look_at(place: WorkDirectory, query: str) -> Output:
    """Raises `InvalidSettings` when neither Spark's file sink nor its Delta sink has written there."""
    with storage_errors(f"read {place.location}"), suppress(NotADirectoryError):
        if logged := place.names(_FILE_SINK):
            newest = newest_barrier(name.removesuffix(".compact") for name in logged)
            return Output(f"Spark's file sink at {place.location}", newest)
        if place.exists(_DELTA):
            return Output(f"Spark's Delta sink at {place.location}", _delta_batch(place.location, query))
    raise InvalidSettings(
        f"could not see how far the output at {place.location} is: it has neither {_FILE_SINK} nor {_DELTA}",
        hint="name the path that the query itself writes to, or leave --sink out",
    )


def require_not_ahead(original: Original, output: Output) -> None:
    """A sink that has later batches was written from a newer state of the directory than this one."""
    if output.newest is not None and output.newest > original.planned:
        raise Conflict(
            f"could not adopt {original.directory.location}: its newest planned batch is {original.planned}, and "
            f"{output.writer} has batch {output.newest}: the directory is older than its output, and the rows of "
            f"batches {original.planned + 1} to {output.newest} would be skipped",
            hint="adopt the directory that the query ran in last, or name the output that belongs to this one: --sink",
        )


def _delta_batch(location: str, query: str) -> BatchId | None:
    try:
        version = require("deltalake", "delta").DeltaTable(location).transaction_version(query)
    except OSError as error:
        raise InvalidSettings(
            f"could not see how far the Delta table at {location} is: {error}",
            hint="leave --sink out: the first start asks the table",
        ) from error
    return None if version is None else BatchId(version)
