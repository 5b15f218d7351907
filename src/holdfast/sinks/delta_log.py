"""The log of a Delta table, through the `deltalake` package.

How deltalake 1.6.6 behaves, each checked by a test here:
  - With `max_commit_retries=0` a commit becomes exactly the version after the one that was loaded, create-if-absent, or
    fails. (With retries it rebases over foreign commits and refuses only those that carry the same transaction id; the
    epoch check would then have been made on an older version than the one the commit lands on.)
  - A failed post-commit hook raises although the commit succeeded: only the reloaded table shows that.
  - Paths are given and compared as they are on disk; deltalake writes them URL-encoded.
  - A dry run of a "lite" vacuum without retention lists exactly the tombstones of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from holdfast.errors import InvalidSettings, StorageUnreachable
from holdfast.sinks.delta_commits import NOTE
from holdfast.sinks.place import require
from holdfast.sinks.protocol import Step
from holdfast.storage.durable import flush, storage_errors

_ATTEMPTS = 50
"""How many commits of other writers may come in between; each failed attempt means that one of them made progress."""


@dataclass(frozen=True)
class LiveFile:
    path: str
    """Relative to the table, as on disk."""
    size: int
    partition: Mapping[str, str | None]
    rows: int = 0


@dataclass(frozen=True)
class Commit:
    transactions: Mapping[str, int]
    """Application id to version."""
    actions: tuple[Any, ...] = ()
    note: Mapping[str, Any] = field(default_factory=dict)


class DeltaLog:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._deltalake = require("deltalake", "delta")
        self._transaction = require("deltalake.transaction", "delta")
        if not hasattr(self._transaction, "RemoveAction"):
            raise InvalidSettings(
                f"the delta sink needs a newer deltalake than {self._deltalake.__version__}",
                hint="pip install --upgrade deltalake",
            )
        self._failures = (require("deltalake.exceptions", "delta").DeltaError, OSError)

    def load(self) -> Any:
        """The table at its newest version."""
        try:
            return self._deltalake.DeltaTable(str(self._place))
        except self._failures as error:
            raise StorageUnreachable(f"could not load the Delta table {self._place}: {error}") from error

    def load_if_there(self) -> Any | None:
        """The table at its newest version, None when there is none."""
        try:
            there = self._deltalake.DeltaTable.is_deltatable(str(self._place))
        except self._failures as error:
            raise StorageUnreachable(f"could not look for a Delta table at {self._place}: {error}") from error
        return self.load() if there else None

    def load_or_create(self, schema_json: str, partition_by: tuple[str, ...]) -> Any:
        try:
            if not self._deltalake.DeltaTable.is_deltatable(str(self._place)):
                self._create(schema_json, partition_by)
        except self._failures as error:
            # Another job may have created it at the same moment; then loading it works.
            if not self._deltalake.DeltaTable.is_deltatable(str(self._place)):
                raise StorageUnreachable(f"could not create the Delta table {self._place}: {error}") from error
        return self.load()

    def _create(self, schema_json: str, partition_by: tuple[str, ...]) -> None:
        try:
            schema = self._deltalake.Schema.from_json(schema_json)
        except ValueError as error:
            raise InvalidSettings(
                f"a Delta table cannot hold the query's columns: {error}", hint="cast them to a type that Delta has"
            ) from error
        self._deltalake.DeltaTable.create(str(self._place), schema, partition_by=list(partition_by) or None)
        self.flush(0)

    def commit(self, operation: str, described: str, plan: Callable[[Any], Commit | None], step: Step) -> None:
        """Call `plan` with the newest table and commit its result, until it returns None or the commit succeeds."""
        tried: int | None = None
        failure: Exception | None = None
        for _ in range(_ATTEMPTS):
            table = self.load()
            with storage_errors(f"{operation} {described}"):
                wanted = plan(table)
            step(f"{operation}: planned")
            if wanted is None:
                break
            if failure is not None and table.version() == tried:
                break  # it failed, but not because of another commit
            tried, failure = table.version(), self.try_commit(table, wanted)
            if failure is None:
                step(f"{operation}: committed")
                wanted, table = None, self.load()
                break
        if wanted is not None:
            raise StorageUnreachable(f"could not {operation} {described}: {failure}") from failure
        with storage_errors(f"flush the log of {described}"):
            self.flush(table.version())

    def try_commit(self, table: Any, commit: Commit) -> Exception | None:
        """Append `commit` directly after the loaded version of `table`.

        None when it succeeded. An exception when it may not have: load the table again and check.
        """
        kinds = self._transaction
        properties = kinds.CommitProperties(
            custom_metadata={NOTE: dict(commit.note)},
            max_commit_retries=0,
            app_transactions=[kinds.Transaction(app, version) for app, version in commit.transactions.items()],
        )
        try:
            table.create_write_transaction(
                list(commit.actions),
                mode="append",
                schema=table.schema(),
                partition_by=table.metadata().partition_columns or None,
                commit_properties=properties,
            )
        except self._failures as error:
            return error
        return None

    def flush(self, version: int) -> None:
        """Flush the log up to `version` to the disk; deltalake leaves that to the operating system."""
        log = self._place / "_delta_log"
        entry = log / f"{version:020d}.json"
        if entry.exists():  # else already folded into a checkpoint of the log
            flush(entry)
        flush(log)
        flush(self._place)

    def add(self, path: str, size: int, partition: Mapping[str, str | None], modified_ms: int, stats: str) -> Any:
        return self._transaction.AddAction(path, size, dict(partition), modified_ms, True, stats)

    def remove(self, file: LiveFile, now_ms: int) -> Any:
        return self._transaction.RemoveAction(file.path, True, now_ms, file.size, dict(file.partition))

    def live_files(self, table: Any) -> list[LiveFile]:
        rows = require("pyarrow", "delta").table(table.get_add_actions(flatten=False)).to_pylist()
        return [
            LiveFile(unquote(row["path"]), row["size_bytes"], _texts(row.get("partition")), row.get("num_records") or 0)
            for row in rows
        ]

    def tombstones(self, table: Any) -> set[str]:
        """Files removed from the table that readers of an older version may still need, until VACUUM deletes them."""
        return set(table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True, full=False))

    def commits_since(self, table: Any, version: int) -> list[dict[str, Any]]:
        """The commits after `version`, newest first, without those that have expired."""
        wanted = table.version() - version
        return [commit for commit in self._history(table, wanted) if commit.get("version", 0) > version]

    def history(self, table: Any) -> list[dict[str, Any]]:
        return self._history(table, None)

    def _history(self, table: Any, limit: int | None) -> list[dict[str, Any]]:
        if limit == 0:
            return []
        try:
            found: list[dict[str, Any]] = table.history(limit)
        except self._failures as error:
            raise StorageUnreachable(f"could not read the history of the Delta table {self._place}: {error}") from error
        return found

    def with_deletion_vectors(self, table: Any) -> set[str]:
        """Files with rows that were deleted without rewriting the file."""
        reader = require("pyarrow", "delta").RecordBatchReader.from_stream(table.deletion_vectors())
        paths = [unquote(str(path)) for path in reader.read_all().column("filepath").to_pylist()]
        return {path.rpartition(f"{self._place}/")[2] for path in paths}


def _texts(partition: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Partition values as the log writes them."""
    return {key: None if value is None else _text(value) for key, value in (partition or {}).items()}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
