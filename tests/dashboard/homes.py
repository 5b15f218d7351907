"""A home with jobs in different conditions, and a dashboard over it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from holdfast.checkpoint.manifest import Manifest, ManifestFile, ManifestShard, digest_of
from holdfast.cli.dashboard.actions import Actions
from holdfast.cli.dashboard.command import examine
from holdfast.cli.dashboard.guard import Guard
from holdfast.cli.dashboard.live import Live
from holdfast.cli.dashboard.server import DashboardServer, Site
from holdfast.cli.home_reader import HomeReader
from holdfast.identifiers import BatchId, CheckpointId, Digest, ShardId
from holdfast.monitoring.metrics_server import metrics_of
from holdfast.repository.entries import BatchSpan, Failure, PhaseDuration, Requests, ShardSummary
from holdfast.repository.self_report import PastAlarm, ReportedAlarm, ReportedLag, ReportedPartition, SelfReport
from holdfast.sources.lag import Trend
from tests.patience import PATIENCE
from tests.unit.job_histories import History
from tests.unit.work_files import stored

UNREACHABLE = Failure("storage_unreachable", "PUT blobs/aa: connection refused (10.2.0.9)", True, "repair the store")
HOSTILE = Failure("expired", "<script>document.title='hacked'</script><img src=x onerror=alert(1)>", True, "<b>no</b>")


def running(
    home: Path, job: str, checkpoints: int = 40, lag: ReportedLag | None = None, ago: timedelta = timedelta(0)
) -> History:
    """A job that runs and is well, with growing checkpoints."""
    history = History(home, job, start=datetime.now(UTC) - ago - timedelta(seconds=60 * checkpoints))
    history.run(interval_s=60.0)
    for id in range(1, checkpoints + 1):
        requests = Requests(put=12, get=3 + id % 4, list=1, delete=2, bytes_out=1, bytes_in=1, seconds=60.0)
        history.complete(
            id,
            batch=id * 10,
            took_s=1.0 + id % 5 * 0.2,
            name="before-upgrade" if id == checkpoints // 2 else None,
            bytes_total=2_000_000 + id * 50_000,
            bytes_new=300_000 + id % 7 * 40_000,
            requests=requests,
            manifest=_manifest(history, id),
            batches=tuple(span_of(batch, history.now) for batch in (id * 10 - 1, id * 10)),
            phases=(PhaseDuration("plan", 40), PhaseDuration("copy", 700 + id % 5 * 200), PhaseDuration("journal", 90)),
            slowest=(
                ShardSummary("state/0/17", 800, 400_000, 90_000 + id * 100, 12, "exec-3"),
                ShardSummary("state/0/4", 300, 300_000, 20_000, 8),
                ShardSummary("control", 20, 900, 900, 4),
            ),
        )
        history.wait(58.0)
    history.now = datetime.now(UTC) - ago
    beat(history, checkpoints * 10 + 3, lag)
    return history


def _manifest(history: History, id: int) -> Digest:
    """Operator 0 grows in one of its shards."""
    epoch = history.journal.fencing_epoch

    def shard(name: str, size: int) -> ManifestShard:
        data = bytes(size)
        file = ManifestFile(f"{name}/1.zip", size, digest_of(data), epoch)
        if not history.store.exists(file.key):
            history.store.upload(file.key, [data])
        return ManifestShard(ShardId(name), (file,))

    sizes = {"control": 90, "state/0/4": 300, "state/0/17": 400 + id}
    shards = tuple(shard(name, size) for name, size in sizes.items())
    return stored(history.store, Manifest(1, history.job, CheckpointId(id), BatchId(id * 10), epoch, shards))  # type: ignore[arg-type]


def span_of(batch: int, at: datetime) -> BatchSpan:
    id = BatchId(batch)
    return BatchSpan(
        id, id, at + timedelta(seconds=0 if batch % 10 else 5), 500 + batch, 500 + batch, 1000 + batch, 7 * batch
    )


def beat(history: History, batch: int, lag: ReportedLag | None = None, **fields: Any) -> None:
    history.now = datetime.now(UTC)
    batches = {"batch": BatchId(batch), "published": BatchId(batch - 3)}
    history.beat(
        report=SelfReport(query_runs=True, kafka_lag=lag, **batches, batches=(span_of(batch, history.now),), **fields)
    )


def lag_of(records: Sequence[int], trend: Trend = "shrinking", caught_up_in_s: float | None = 70.0) -> ReportedLag:
    """Of a topic with so many partitions; half as much again is not shown to readers."""
    parts = [
        ReportedPartition(topic="orders", partition=number, processed=count, published=count * 3 // 2)
        for number, count in enumerate(records)
    ]
    return ReportedLag(
        at=datetime.now(UTC),
        processed=sum(records),
        published=sum(each.published or 0 for each in parts),
        seconds=42.0,
        trend=trend,
        caught_up_in_s=caught_up_in_s,
        partitions=tuple(sorted(parts, key=lambda each: -each.processed)),
    )


def failing(home: Path, job: str = "payments", failure: Failure = UNREACHABLE) -> History:
    history = running(home, job, 20, ago=timedelta(minutes=6))
    history.now = datetime.now(UTC) - timedelta(minutes=6)
    for id in range(21, 27):
        history.fail(id, failure)
        history.wait(58.0)
    failed = ReportedAlarm(
        code="checkpoints_failing",
        severity="critical",
        message=f"6 checkpoints failed in a row: {failure.message}",
        hint="check the home's storage",
        at=history.now,
        since=history.now - timedelta(minutes=6),
    )
    lagged = PastAlarm(
        code="kafka_lag_growing",
        severity="warning",
        message="the query is 22 min behind, and falls behind further",
        since=history.now - timedelta(minutes=17),
        until=history.now - timedelta(minutes=12),
    )
    beat(history, 240, alarms=(failed,), past_alarms=(lagged,))
    return history


def lost(home: Path, job: str = "clicks") -> History:
    history = History(home, job, start=datetime.now(UTC) - timedelta(minutes=30))
    history.run(interval_s=60.0)
    history.complete(1, batch=3)
    history.beat()
    return history


@contextmanager
def dashboard(home: Path, guard: Guard | None = None) -> Iterator[str]:
    reader = HomeReader(f"file://{home}")
    live = Live(reader, looked_at_s=0.2)
    metrics = metrics_of(lambda: list(reader.latest.jobs.values()))
    guard = guard or Guard(frozenset())
    actions = Actions(f"file://{home}", PATIENCE) if guard.actions else None
    site = Site(live, guard, metrics, examine, actions)
    server = DashboardServer("127.0.0.1", 0, site)
    live.start()
    version: int | None = 0
    while live.reading.is_first:
        version = live.wait_for_change(version, PATIENCE)
        assert version is not None
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        live.close()
        server.close()
