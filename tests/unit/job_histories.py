"""Homes with a history, written by the real journal on a real directory."""

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from holdfast.checkpoint.manifest import Manifest
from holdfast.identifiers import AttemptId, BatchId, CheckpointId, Digest, FencingEpoch
from holdfast.repository.entries import (
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointFailedEntry,
    CheckpointsRetired,
    CheckpointStarted,
    Failure,
    PhaseDuration,
    Process,
    QueryRestarted,
    Retention,
    RunEnded,
    RunStarted,
    SavepointDeleted,
    SavepointNamed,
    ShardSummary,
)
from holdfast.repository.journal import Journal
from holdfast.repository.ownership import Heartbeat, read_heartbeat, write_heartbeat
from holdfast.repository.self_report import SelfReport
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from holdfast.storage.local import LocalStore
from tests.unit.work_files import copied as copy_work
from tests.unit.work_files import manifest_of, stored

ELSEWHERE = Process("build-3", 4711, boot_id="another-machine")
EXPIRED = Failure("expired", "took longer than 10m", True, "raise the timeout")


class History:
    """One job's history, written entry by entry at times that the test chooses."""

    def __init__(self, home: Path, job: str = "orders", start: datetime | None = None, attempts: str = "") -> None:
        """`attempts` names the attempts to append, which no two writers of one journal have in common."""
        home.mkdir(exist_ok=True)
        self.home = home
        self.job = job
        self.store = LocalStore(home).scoped(job)
        self.now = start or datetime.now(UTC)
        numbers = itertools.count()
        self.journal = Journal(
            self.store, new_attempt=lambda: AttemptId(f"{attempts or job}-{next(numbers)}"), now=lambda: self.now
        )

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def run(
        self,
        process: Process = ELSEWHERE,
        work: str = "/work",
        retention: Retention | None = None,
        interval_s: float = 0.0,
        heartbeat_s: float = 5.0,
        state_file: str = "",
        sink: str = "",
        plans: Literal["", "prefer", "require"] = "",
    ) -> FencingEpoch:
        return self.journal.claim(
            lambda stamp: RunStarted(
                **stamp,
                lineage="lineage",
                process=process,
                heartbeat_s=heartbeat_s,
                work=work,
                holdfast="0.1.0",
                retention=retention,
                interval_s=interval_s,
                state_file=state_file,
                sink=sink,
                plans=plans,
            )
        ).fencing_epoch

    def beat(self, application_id: str | None = "app-1", report: SelfReport | None = None) -> None:
        run = self.journal.state.run
        assert run is not None
        beat = Heartbeat(
            run.process, run.fencing_epoch, run.at, self.now, run.heartbeat_s, application_id, report=report
        )
        write_heartbeat(self.store, beat)

    def end(self, reason: str = "stopped by SIGTERM") -> None:
        self._append(RunEnded, reason=reason)

    def start(self, id: int, batch: int = 0) -> None:
        self._append(
            CheckpointStarted,
            id=CheckpointId(id),
            checkpoint_kind="checkpoint",
            name=None,
            barrier_batch_id=BatchId(batch),
        )

    def complete(self, id: int, batch: int = 0, name: str | None = None, took_s: float = 1.2, **fields: Any) -> None:
        """A checkpoint from its trigger to its end: time passes by `took_s`."""
        triggered_at = self.now
        self.wait(took_s)
        values: dict[str, Any] = {
            "manifest": fields.get("manifest") or self._manifest(id, batch),
            "bytes_total": 2_000_000,
            "bytes_new": 500_000,
            "files": 230,
            "objects_written": 12,
            "shards": 4,
            "phases": (PhaseDuration("plan", 12), PhaseDuration("copy", 1100), PhaseDuration("journal", 88)),
            "slowest": (ShardSummary("state/0/3", 800, 400_000, 90_000, 12), ShardSummary("control", 20, 900, 900, 4)),
        }
        self._append(
            CheckpointCompleted,
            id=CheckpointId(id),
            checkpoint_kind="savepoint" if name else "checkpoint",
            name=name,
            barrier_batch_id=BatchId(batch),
            triggered_at=triggered_at,
            duration_ms=round(took_s * 1000),
            **(values | fields),
        )

    def _manifest(self, id: int, batch: int) -> Digest:
        """Of a checkpoint without files, which is there."""
        empty = Manifest(1, self.job, CheckpointId(id), BatchId(batch), self.journal.fencing_epoch, ())
        return stored(self.store, empty)  # type: ignore[arg-type]

    def fail(
        self,
        id: int | None,
        failure: Failure = EXPIRED,
        took_s: float = 1.0,
        triggered_at: datetime | None = None,
        head: int | None = None,
    ) -> None:
        begun = triggered_at or self.now
        if triggered_at is None:
            self.wait(took_s)
        self._append(
            CheckpointFailedEntry,
            id=None if id is None else CheckpointId(id),
            checkpoint_kind="checkpoint",
            name=None,
            barrier_batch_id=None if id is None else BatchId(7),
            triggered_at=begun,
            duration_ms=round(took_s * 1000),
            failure=failure,
            head=head,
            shards=4,
            shards_acknowledged=3,
            bytes_new=1000,
        )

    def restart(self, number: int = 1, duration_ms: int | None = 1400, cause: str = "user code") -> None:
        hint = "correct the pipeline's code"
        message = "ValueError: a poisonous row"
        self._append(
            QueryRestarted, cause=cause, message=message, attempt_number=number, hint=hint, duration_ms=duration_ms
        )

    def retire(self, *ids: int) -> None:
        self._append(CheckpointsRetired, ids=tuple(CheckpointId(id) for id in ids))

    def damage(self, id: int, detail: str = "blobs/aa/aa.1 has another digest") -> None:
        self._append(CheckpointCorrupt, id=CheckpointId(id), detail=detail)

    def name(self, name: str, id: int) -> None:
        self._append(SavepointNamed, id=CheckpointId(id), name=name)

    def delete(self, name: str, id: int) -> None:
        self._append(SavepointDeleted, id=CheckpointId(id), name=name)

    def seen(self, *, alive: bool = True) -> Observation:
        return Observation(
            job=self.job,
            home=f"file://{self.home}",
            state=self.state(),
            heartbeat=read_heartbeat(self.store),
            alive=alive,
            now=self.now,
        )

    def state(self) -> JobState:
        return self.journal.state

    def _append(self, kind: Any, **fields: Any) -> None:
        self.journal.append(lambda stamp: kind(**stamp, **fields))


def complete_with_bytes(history: History, id: int, work: Path, blobs: Any, **fields: Any) -> None:
    """A completed checkpoint whose objects really are in the home."""
    copies = copy_work(work, blobs)
    manifest = manifest_of(copies, id)
    digest = stored(history.store, manifest)  # type: ignore[arg-type]
    files = {"manifest": digest, "bytes_total": manifest.bytes_total, "files": len(manifest.files())}
    history.complete(id, **{"batch": 12, **files, **fields})
