"""A home with jobs in different conditions, and a dashboard over it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.cli.dashboard.actions import Actions
from holdfast.cli.dashboard.command import examine
from holdfast.cli.dashboard.guard import Guard
from holdfast.cli.dashboard.live import Live
from holdfast.cli.dashboard.server import DashboardServer, Site
from holdfast.cli.home_reader import HomeReader
from holdfast.monitoring.metrics_server import metrics_of
from holdfast.repository.entries import Failure, PhaseDuration, Requests, ShardSummary
from holdfast.repository.self_report import SelfReport
from tests.patience import PATIENCE
from tests.unit.job_histories import History

UNREACHABLE = Failure("storage_unreachable", "PUT blobs/aa: connection refused (10.2.0.9)", True, "repair the store")
HOSTILE = Failure("expired", "<script>document.title='hacked'</script><img src=x onerror=alert(1)>", True, "<b>no</b>")


def running(home: Path, job: str, checkpoints: int = 40) -> History:
    """A job that runs and is well, with growing checkpoints."""
    history = History(home, job, start=datetime.now(UTC) - timedelta(seconds=60 * checkpoints))
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
            phases=(PhaseDuration("plan", 40), PhaseDuration("copy", 700 + id % 5 * 200), PhaseDuration("journal", 90)),
            slowest=(
                ShardSummary("state/0/17", 800, 400_000, 90_000 + id * 100, 12),
                ShardSummary("state/0/4", 300, 300_000, 20_000, 8),
                ShardSummary("control", 20, 900, 900, 4),
            ),
        )
        history.wait(58.0)
    history.now = datetime.now(UTC)
    beat(history, checkpoints * 10 + 3)
    return history


def beat(history: History, batch: int) -> None:
    history.now = datetime.now(UTC)
    history.beat(report=SelfReport(query_runs=True, batch=batch, published=batch - 3))  # type: ignore[arg-type]


def failing(home: Path, job: str = "payments", failure: Failure = UNREACHABLE) -> History:
    history = running(home, job, 20)
    for id in range(21, 27):
        history.fail(id, failure)
    beat(history, 240)
    return history


def lost(home: Path, job: str = "clicks") -> History:
    history = History(home, job, start=datetime.now(UTC) - timedelta(minutes=30))
    history.run(interval_s=60.0)
    history.complete(1, batch=3)
    history.beat()
    return history


@contextmanager
def dashboard(home: Path, guard: Guard | None = None, looked_at_s: float = 0.2) -> Iterator[str]:
    reader = HomeReader(f"file://{home}")
    live = Live(reader, looked_at_s)
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
