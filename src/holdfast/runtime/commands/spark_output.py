"""How far output is that Spark's own sinks have written, from what they leave beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.checkpoint.layout import newest_barrier
from holdfast.errors import Conflict, InvalidSettings
from holdfast.identifiers import BatchId
from holdfast.plans.table_history import Change, HistoryExpired, restored_to
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
    """Raises `InvalidSettings` when neither Spark's file sink nor its Delta sink has written there, and `Conflict` when
    the table lacks batches that its sink will skip."""
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
        table = require("deltalake", "delta").DeltaTable(location)
        version = table.transaction_version(query)
    except OSError as error:
        raise InvalidSettings(
            f"could not see how far the Delta table at {location} is: {error}",
            hint="leave --sink out: the first start asks the table",
        ) from error
    if version is None:
        return None
    newest = BatchId(version)
    with suppress(HistoryExpired):
        shown = restored_to(_changes(table.history(), location), query, newest)
        if shown is not None:
            shows = "no batch" if shown < 0 else f"batches up to {shown}"
            raise Conflict(
                f"an older version of the Delta table at {location} was restored: it shows {shows}, and Spark's sink "
                f"skips those up to {newest}, which it has recorded: their rows would be missing",
                hint="restore the version of the table that has them, then try again",
            )
    return newest


def _changes(history: Sequence[Mapping[str, Any]], location: str) -> Iterator[Change]:
    commits = {int(commit["version"]): commit for commit in history}
    version: int | None = max(commits, default=None)
    while version is not None and (commit := commits.get(version)) is not None:
        given = commit.get("operationParameters") or {}
        before = version - 1 if version else None
        if commit.get("operation") == "RESTORE":
            if given.get("version") is None:
                raise Conflict(
                    f"version {version} of the Delta table at {location} restored an older one by its time: which one "
                    "cannot be seen here",
                    hint="restore the version that it is to have by its number, then try again",
                )
            before = int(given["version"])
        batch = given.get("epochId")
        yield Change(version, before, given.get("queryId"), None if batch is None else BatchId(int(batch)))
        version = before
