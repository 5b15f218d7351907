"""Metrics say what the journal says, keep Prometheus' conventions, and a real Prometheus reads them, alerts and all."""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.identifiers import CheckpointId
from holdfast.monitoring.metrics_server import MetricsServer, metrics_of
from holdfast.monitoring.tallies import Tally
from holdfast.repository.entries import Failure, RecordedHeadroom, Requests
from holdfast.repository.liveness import Liveness
from holdfast.repository.self_report import (
    ReportedAlarm,
    ReportedLag,
    ReportedPartition,
    ReportedRecovery,
    ReportedRestorable,
    SelfReport,
)
from holdfast.repository.state import JobState
from holdfast.repository.views import Observation
from tests.documents import ROOT
from tests.patience import PATIENCE
from tests.stores.processes import free_port
from tests.unit.job_histories import History

ALERTS = ROOT / "deploy" / "prometheus" / "holdfast-alerts.yml"
GRAFANA = ROOT / "deploy" / "grafana" / "holdfast.json"
UNREACHABLE = Failure("storage_unreachable", "connection refused", True, "repair it")
RECOVERY = ReportedRecovery(batches_behind=2, seconds=12.5, target_s=300.0, fall_back_batches=5, fall_back_seconds=30.5)
LAG = ReportedLag(
    at=datetime(2026, 1, 1, tzinfo=UTC),
    processed=12,
    published=30,
    seconds=4.5,
    trend="shrinking",
    caught_up_in_s=8.0,
    partitions=(
        ReportedPartition(topic="clicks", partition=1, processed=9, published=27),
        ReportedPartition(topic="clicks", partition=0, processed=3),
    ),
)
RESTORABLE = (ReportedRestorable(id=CheckpointId(1), until=datetime(2026, 1, 1, tzinfo=UTC), gone=True),)
REQUESTS = Requests(put=10, get=4, list=2, delete=1, bytes_out=1, bytes_in=1, seconds=60.0)


def history_of(tmp_path: Path) -> History:
    """Two completed checkpoints and two failures after them, an hour ago; one restart."""
    history = History(tmp_path / "home", start=datetime.now(UTC) - timedelta(hours=1))
    history.run(interval_s=60.0)
    headroom = RecordedHeadroom(needed_ms=1200, lives_ms=9000, batches_retained=100, pinned=True)
    history.complete(1, batch=3, requests=REQUESTS)
    history.complete(2, batch=7, took_s=2.5, bytes_total=900, bytes_new=300, requests=REQUESTS, headroom=headroom)
    history.restart()
    history.fail(3, UNREACHABLE)
    history.fail(4, UNREACHABLE)
    return history


def seen(history: History) -> Observation:
    alarm = ReportedAlarm(
        code="checkpoints_failing", severity="critical", message="2 failed", hint="repair it", at=datetime.now(UTC)
    )
    report = SelfReport(
        batch=9,
        published=7,
        consecutive_failures=2,
        alarms=(alarm,),
        recovery=RECOVERY,
        kafka_lag=LAG,
        restorable=RESTORABLE,
    )  # type: ignore[arg-type]
    return Observation(
        job=history.job,
        home="s3://acme/home",
        state=history.state(),
        heartbeat=None,
        alive=True,
        now=datetime.now(UTC),
        liveness=Liveness(True, "it runs", "process", 0.0, None, report),
    )


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_they_say_what_the_journal_says(tmp_path: Path) -> None:
    history = history_of(tmp_path)
    found = samples(metrics_of(lambda: [seen(history)])().decode())
    age = found.pop('holdfast_seconds_since_last_completed_checkpoint{job="orders"}')
    assert 3500 < age < 3700 + PATIENCE
    expected = {
        'holdfast_checkpoint_duration_seconds{job="orders"}': 2.5,
        'holdfast_checkpoint_phase_duration_seconds{job="orders",phase="copy"}': 1.1,
        'holdfast_checkpoint_size_bytes{job="orders"}': 900,
        'holdfast_checkpoint_new_bytes{job="orders"}': 300,
        'holdfast_last_completed_checkpoint_id{job="orders"}': 2,
        'holdfast_checkpoints_completed_total{job="orders"}': 2,
        'holdfast_checkpoint_failures_total{job="orders",reason="storage_unreachable"}': 2,
        'holdfast_consecutive_failures{job="orders"}': 2,
        'holdfast_query_restarts_total{job="orders"}': 1,
        'holdfast_checkpoint_interval_seconds{job="orders"}': 60,
        'holdfast_checkpoint_files_needed_seconds{job="orders"}': 1.2,
        'holdfast_checkpoint_files_kept_seconds{job="orders"}': 9,
        'holdfast_home_requests_total{job="orders",operation="put"}': 20,
        'holdfast_published_batch_id{job="orders",sink=""}': 7,
        'holdfast_committed_batch_id{job="orders"}': 9,
        'holdfast_kafka_lag_records{job="orders",partition="1",topic="clicks"}': 9,
        'holdfast_kafka_lag_records{job="orders",partition="0",topic="clicks"}': 3,
        'holdfast_kafka_published_lag_records{job="orders",partition="1",topic="clicks"}': 27,
        'holdfast_source_restorable_seconds{job="orders"}': 0,
        'holdfast_kafka_lag_seconds{job="orders"}': 4.5,
        'holdfast_kafka_caught_up_in_seconds{job="orders"}': 8,
        'holdfast_recovery_batches{job="orders"}': 2,
        'holdfast_recovery_seconds{job="orders"}': 12.5,
        'holdfast_fall_back_batches{job="orders"}': 5,
        'holdfast_fall_back_seconds{job="orders"}': 30.5,
        'holdfast_recovery_target_seconds{job="orders"}': 300,
        'holdfast_job_running{job="orders"}': 1,
        'holdfast_fencing_epoch{job="orders"}': 1,
        'holdfast_owner_info{fencing_epoch="1",host="build-3",job="orders",pid="4711"}': 1,
        'holdfast_alarm_active{alarm="checkpoints_failing",job="orders",severity="critical"}': 1,
    }
    assert {name: found.get(name) for name in expected} == expected
    a_month = 30.4 * 86400 / 60 * (10 * 0.005 + 4 * 0.0004 + 2 * 0.005) / 1000
    assert found['holdfast_home_cost_dollars_per_month{job="orders"}'] == pytest.approx(a_month)


def test_a_counter_does_not_fall_when_the_journal_forgets(tmp_path: Path) -> None:
    history = history_of(tmp_path)
    tally = Tally()
    tally.count(history.state())
    assert tally.failures == {"storage_unreachable": 2}
    folded = JobState(head=history.state().head)
    tally.count(folded)
    history.fail(5, UNREACHABLE)
    tally.count(history.state())
    assert tally.failures == {"storage_unreachable": 3}


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here: apt-get install prometheus")
    return path


def test_names_and_units_keep_the_conventions(tmp_path: Path) -> None:
    text = metrics_of(lambda: [seen(history_of(tmp_path))])()
    checked = subprocess.run([program("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_the_alert_rules_are_valid() -> None:
    checked = subprocess.run([program("promtool"), "check", "rules", ALERTS], capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@contextmanager
def prometheus(target: int, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    rules = ALERTS.read_text().replace("for: 1m", "for: 1s").replace("for: 2m", "for: 1s").replace("30s", "1s")
    (tmp_path / "rules.yml").write_text(rules)
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        f"rule_files: [{tmp_path / 'rules.yml'}]\n"
        "scrape_configs:\n"
        f"  - {{job_name: holdfast, honor_labels: true, static_configs: [{{targets: ['127.0.0.1:{target}']}}]}}\n"
    )
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                program("prometheus"),
                f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def asked(base: str, path: str, **query: str) -> Any:
    try:
        with urllib.request.urlopen(f"{base}{path}?{urllib.parse.urlencode(query)}", timeout=PATIENCE) as answer:
            return json.load(answer)["data"]
    except OSError:
        return None


def until(base: str, path: str, found: Any, **query: str) -> Any:
    ends = datetime.now(UTC) + timedelta(seconds=PATIENCE)
    while datetime.now(UTC) < ends:
        if (answer := asked(base, path, **query)) is not None and found(answer):
            return answer
    raise AssertionError(f"{path} {query}: {answer}")


def test_a_real_prometheus_reads_them_and_alerts_and_every_panel_has_data(tmp_path: Path) -> None:
    program("prometheus")
    history = history_of(tmp_path)
    with ExitStack() as stack:
        server = MetricsServer("127.0.0.1", 0, lambda: [seen(history)])
        stack.callback(server.close)
        base = stack.enter_context(prometheus(server.port, tmp_path))
        (age,) = until(
            base,
            "/api/v1/query",
            lambda answer: answer["result"],
            query="holdfast_seconds_since_last_completed_checkpoint",
        )["result"]
        assert age["metric"]["job"] == "orders"
        assert float(age["value"][1]) > 3500
        wanted = {"HoldfastCheckpointOverdue", "HoldfastCheckpointsFailing", "HoldfastAlarm"}
        until(
            base,
            "/api/v1/alerts",
            lambda answer: {a["labels"]["alertname"] for a in answer["alerts"] if a["state"] == "firing"} == wanted,
        )
        for panel in json.loads(GRAFANA.read_text())["panels"]:
            for target in panel["targets"]:
                query = re.sub(r"\$job", ".*", target["expr"])
                until(base, "/api/v1/query", lambda answer: answer["result"], query=query)


def test_only_metrics_are_served(tmp_path: Path) -> None:
    server = MetricsServer("127.0.0.1", 0, list)
    try:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=PATIENCE)
    finally:
        server.close()
