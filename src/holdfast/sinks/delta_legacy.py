"""Tables that version 0.1.0 wrote to: it kept the lineage in the names of its transaction ids.

    holdfast:<job>:<lineage>         the newest published batch, -1 for none
    holdfast-epoch:<job>:<lineage>   fencing_epoch of the newest run that opened the table

and a note in each commit with the number of files of each batch. The first run of this version converts that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks.delta_commits import NOTE
from holdfast.sinks.delta_ledger import NOTHING, DeltaLedger
from holdfast.sinks.place import owner_name, require
from holdfast.sinks.protocol import SinkContext, fingerprint
from holdfast.sinks.published_record import RecordedBatch, RecordedFile


def legacy_lineage(place: Path, table: Any, context: SinkContext) -> str | None:
    """The lineage that 0.1.0 wrote, None for none: this job's own, otherwise the one with the newest run."""
    if table.transaction_version(epoch_app(context.job, context.lineage)) is not None:
        return context.lineage
    if not any(place.glob(f"holdfast-{context.job}-????????/")):
        return None
    prefix = epoch_app(context.job, "")
    lives = {app.removeprefix(prefix) for app in _apps(place / "_delta_log") if app.startswith(prefix)}
    return max(lives, key=lambda life: (table.transaction_version(prefix + life) or 0, life), default=None)


def legacy_ledger(table: Any, job: JobName, lineage: str) -> DeltaLedger:
    published = table.transaction_version(f"holdfast:{job}:{lineage}")
    epoch = table.transaction_version(epoch_app(job, lineage))
    return DeltaLedger(fingerprint(lineage), FencingEpoch(epoch or 0), 0, NOTHING if published is None else published)


def epoch_app(job: JobName, lineage: str) -> str:
    return f"holdfast-epoch:{job}:{lineage}"


def legacy_batches(
    history: Sequence[dict[str, Any]], files: Sequence[RecordedFile], job: JobName, lineage: str, published: int
) -> tuple[RecordedBatch, ...]:
    """The files of the newest batches, as far back as the notes and the live files agree without a gap."""
    prefix = f"holdfast-{owner_name(SinkContext(job, FencingEpoch(0), lineage))}/"
    live: dict[int, list[RecordedFile]] = {}
    for file in files:
        if file.path.startswith(prefix):
            live.setdefault(made_as(file.path)[0], []).append(file)
    noted = _noted(history, f"holdfast:{job}:{lineage}", published)
    found = []
    for batch in range(published, NOTHING, -1):
        if batch not in noted or len(live.get(batch, ())) != noted[batch]:
            break
        found.append(RecordedBatch(BatchId(batch), tuple(live.get(batch, ()))))
    return tuple(reversed(found))


def _noted(history: Sequence[dict[str, Any]], app: str, published: int) -> dict[int, int]:
    """How many files each batch has, by the notes of commits that no later rewind undid, newest first."""
    counts: dict[int, int] = {}
    ceiling = published
    for note in (commit[NOTE] for commit in history if isinstance(commit.get(NOTE), dict)):
        if note.get("app") == app and "published" in note:
            ceiling = min(ceiling, note["published"])
            for batch, files in note.get("files", {}).items():
                if int(batch) <= ceiling:
                    counts.setdefault(int(batch), files)
    return counts


def _apps(log: Path) -> Iterator[str]:
    """Every transaction id in the log, of all versions."""
    for path in sorted(log.glob("*.json")):
        for line in path.read_text().splitlines():
            if '"txn"' in line and isinstance(txn := json.loads(line).get("txn"), dict):
                yield str(txn["appId"])
    parquet = require("pyarrow.parquet", "delta")
    for path in sorted(log.glob("*.checkpoint*.parquet")):
        if "txn" in parquet.read_schema(path).names:
            transactions = parquet.read_table(path, columns=["txn"]).column("txn").to_pylist()
            yield from (str(txn["appId"]) for txn in transactions if txn and txn.get("appId"))


def made_as(path: str) -> tuple[BatchId, FencingEpoch]:
    """The batch and the run that staged a file: holdfast-<job>-<lineage>/<fencing_epoch>/<batch>-<unique>/…"""
    _, epoch, batch, *_ = path.split("/")
    return BatchId(int(batch.partition("-")[0])), FencingEpoch(int(epoch))
