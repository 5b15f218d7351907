"""The metrics of jobs, by Prometheus' conventions. Ages are by the clock at the time of the scrape."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from holdfast.history import history_findings
from holdfast.monitoring.tallies import Tally
from holdfast.repository.documents import JobView
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.views import Observation, job_status
from holdfast.storage.metered import Usage
from holdfast.storage.prices import dollars_a_month

Family = GaugeMetricFamily | CounterMetricFamily


@dataclass(frozen=True)
class _Measured:
    seen: Observation
    view: JobView
    tally: Tally
    newest: CheckpointCompleted | None


class JobsCollector(Collector):
    """`read` returns the jobs as they are known now; it must not block for long."""

    def __init__(self, read: Callable[[], Iterable[Observation]]) -> None:
        self._read = read
        self._tallies: dict[str, Tally] = {}
        self._counting = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        with self._counting:
            jobs = [self._of(seen) for seen in self._read()]
        yield from (*_checkpoints(jobs), *_running(jobs), *_home(jobs), *_alarms(jobs))

    def _of(self, seen: Observation) -> _Measured:
        tally = self._tallies.setdefault(seen.job, Tally())
        tally.count(seen.state)
        view = job_status(seen)
        newest = view.last_completed.id if view.last_completed else None
        return _Measured(seen, view, tally, None if newest is None else seen.state.completed[newest])


def exposition(collector: JobsCollector) -> bytes:
    """What a scrape gets."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def _gauge(name: str, text: str, labels: Sequence[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"holdfast_{name}", text, labels=["job", *labels])


def _counter(name: str, text: str, labels: Sequence[str] = ()) -> CounterMetricFamily:
    return CounterMetricFamily(f"holdfast_{name}", text, labels=["job", *labels])


def _each(family: Family, jobs: Iterable[_Measured], value: Callable[[_Measured], float | None]) -> Family:
    for job in jobs:
        if (found := value(job)) is not None:
            family.add_metric([job.seen.job], found)
    return family


def _of_newest(value: Callable[[CheckpointCompleted], float]) -> Callable[[_Measured], float | None]:
    return lambda job: None if job.newest is None else value(job.newest)


def _checkpoints(jobs: Sequence[_Measured]) -> Iterator[Family]:
    age = _gauge("seconds_since_last_completed_checkpoint", "Age of the newest completed checkpoint, by the clock.")
    yield _each(age, jobs, lambda job: job.view.seconds_since_last_completed)
    duration = _gauge("checkpoint_duration_seconds", "Duration of the newest completed checkpoint.")
    yield _each(duration, jobs, _of_newest(lambda entry: entry.duration_ms / 1000))
    yield _phases(jobs)
    size = _gauge("checkpoint_size_bytes", "Size of the newest completed checkpoint.")
    yield _each(size, jobs, _of_newest(lambda entry: entry.bytes_total))
    uploaded = _gauge("checkpoint_new_bytes", "Bytes that the newest completed checkpoint uploaded.")
    yield _each(uploaded, jobs, _of_newest(lambda entry: entry.bytes_new))
    newest = _gauge("last_completed_checkpoint_id", "Id of the newest completed checkpoint.")
    yield _each(newest, jobs, _of_newest(lambda entry: entry.id))
    completed = _counter("checkpoints_completed", "Completed checkpoints.")
    yield _each(completed, jobs, lambda job: job.tally.completed)
    yield _failures(jobs)
    in_a_row = _gauge("consecutive_failures", "Failed checkpoints since the newest completed one.")
    yield _each(in_a_row, jobs, lambda job: job.view.consecutive_failures)
    yield from _headroom(jobs)
    interval = _gauge("checkpoint_interval_seconds", "Configured time between two checkpoints.")
    yield _each(interval, jobs, lambda job: job.view.interval_s)


def _phases(jobs: Iterable[_Measured]) -> Family:
    family = _gauge("checkpoint_phase_duration_seconds", "Phases of the newest completed checkpoint.", ["phase"])
    for job in jobs:
        for phase in job.newest.phases if job.newest else ():
            family.add_metric([job.seen.job, phase.name], phase.ms / 1000)
    return family


def _failures(jobs: Iterable[_Measured]) -> Family:
    family = _counter("checkpoint_failures", "Failed checkpoints by reason.", ["reason"])
    for job in jobs:
        for reason, count in sorted(job.tally.failures.items()):
            family.add_metric([job.seen.job, reason], count)
    return family


def _headroom(jobs: Sequence[_Measured]) -> Iterator[Family]:
    needed = _gauge("checkpoint_files_needed_seconds", "How long the newest checkpoint needed the files of its batch.")
    yield _each(needed, jobs, lambda job: _headroom_of(job, "needed_ms"))
    lives = _gauge("checkpoint_files_kept_seconds", "How long Spark keeps the files of a batch.")
    yield _each(lives, jobs, lambda job: _headroom_of(job, "lives_ms"))


def _headroom_of(job: _Measured, field: str) -> float | None:
    headroom = job.newest.headroom if job.newest else None
    return None if headroom is None else float(getattr(headroom, field)) / 1000


def _running(jobs: Sequence[_Measured]) -> Iterator[Family]:
    running = _gauge("job_running", "1 while the pipeline runs, else 0.")
    yield _each(running, jobs, lambda job: float(job.view.running))
    epoch = _gauge("fencing_epoch", "Number of the newest run.")
    yield _each(epoch, jobs, lambda job: job.seen.state.fencing_epoch)
    yield _owners(jobs)
    beat = _gauge("seconds_since_heartbeat", "Age of the newest heartbeat of the owner.")
    yield _each(beat, jobs, _beat_age)
    restarts = _counter("query_restarts", "Restarts of the query.")
    yield _each(restarts, jobs, lambda job: job.tally.restarts)
    batch = _gauge("committed_batch_id", "Newest batch that Spark has committed, as the run reports it.")
    yield _each(batch, jobs, lambda job: job.seen.report.batch if job.seen.report else None)
    published = _gauge("published_batch_id", "Newest batch that the sink has published.", ["sink"])
    for job in jobs:
        if (report := job.seen.report) is not None and report.published is not None:
            published.add_metric([job.seen.job, _sink(job)], report.published)
    yield published
    yield from _recovery(jobs)
    yield from _kafka(jobs)


def _kafka(jobs: Sequence[_Measured]) -> Iterator[Family]:
    partition = ["topic", "partition"]
    processed = _gauge("kafka_lag_records", "Records of a partition that no committed batch has.", partition)
    published = _gauge(
        "kafka_published_lag_records", "Records of a partition that readers of the sink do not see.", partition
    )
    for job in jobs:
        for each in job.view.kafka_lag.partitions if job.view.kafka_lag else ():
            labels = [job.seen.job, each.topic, str(each.partition)]
            processed.add_metric(labels, each.processed)
            if each.published is not None:
                published.add_metric(labels, each.published)
    yield from (processed, published)
    skipped = _gauge(
        "kafka_skipped_records", "Records of a partition that were deleted before this run read them.", partition
    )
    for job in jobs:
        for gone in job.view.kafka_skipped:
            skipped.add_metric([job.seen.job, gone.topic, str(gone.partition)], gone.records)
    yield skipped
    age = _gauge("kafka_lag_seconds", "Age of the oldest record that no committed batch has, estimated.")
    yield _each(age, jobs, lambda job: job.view.kafka_lag.seconds if job.view.kafka_lag else None)
    until = _gauge(
        "source_restorable_seconds", "How long the sources still keep what the oldest checkpoint needs, estimated."
    )
    yield _each(until, jobs, _restorable)
    ends = _gauge("kafka_caught_up_in_seconds", "When the lag is gone at the present pace; absent unless it shrinks.")
    yield _each(ends, jobs, lambda job: job.view.kafka_lag.caught_up_in_s if job.view.kafka_lag else None)


def _restorable(job: _Measured) -> float | None:
    """0 when it is gone already."""
    report = job.seen.report if job.seen.running else None
    ends = [each.until for each in report.restorable if each.until is not None] if report else []
    return max(0.0, (min(ends) - job.seen.now).total_seconds()) if ends else None


def _recovery(jobs: Sequence[_Measured]) -> Iterator[Family]:
    behind = _gauge("recovery_batches", "Batches that a recovery on an empty disk would repeat now.")
    yield _each(behind, jobs, lambda job: job.view.recovery.batches_behind if job.view.recovery else None)
    takes = _gauge("recovery_seconds", "How long a recovery on an empty disk would take now, estimated.")
    yield _each(takes, jobs, lambda job: job.view.recovery.seconds if job.view.recovery else None)
    again = _gauge("fall_back_batches", "Batches that it would repeat if the newest checkpoint is damaged.")
    yield _each(again, jobs, lambda job: job.view.recovery.fall_back_batches if job.view.recovery else None)
    longer = _gauge("fall_back_seconds", "How long it would take then, estimated.")
    yield _each(longer, jobs, lambda job: job.view.recovery.fall_back_seconds if job.view.recovery else None)
    target = _gauge("recovery_target_seconds", "Configured target for the time of a recovery.")
    yield _each(target, jobs, lambda job: job.view.recovery.target_s if job.view.recovery else None)


def _sink(job: _Measured) -> str:
    return job.seen.state.pipeline.sink if job.seen.state.pipeline else ""


def _owners(jobs: Iterable[_Measured]) -> Family:
    family = _gauge("owner_info", "The newest run of the pipeline: always 1.", ["host", "pid", "fencing_epoch"])
    for job in jobs:
        if (owner := job.view.owner) is not None:
            family.add_metric([job.seen.job, owner.host, str(owner.pid), str(owner.fencing_epoch)], 1)
    return family


def _beat_age(job: _Measured) -> float | None:
    at = job.view.owner.heartbeat_at if job.view.owner else None
    return None if at is None else max(0.0, (job.seen.now - at).total_seconds())


def _home(jobs: Sequence[_Measured]) -> Iterator[Family]:
    requests = _counter("home_requests", "Requests to the home, as completed checkpoints record them.", ["operation"])
    for job in jobs:
        for operation, count in sorted(job.tally.requests.items()):
            requests.add_metric([job.seen.job, operation], count)
    yield requests
    uploaded = _counter("uploaded_bytes", "Bytes that completed checkpoints uploaded.")
    yield _each(uploaded, jobs, lambda job: job.tally.bytes_new)
    cost = _gauge("home_cost_dollars_per_month", "Cost of requests at list price and at the newest rate.")
    yield _each(cost, jobs, _cost)


def _cost(job: _Measured) -> float | None:
    made = job.newest.requests if job.newest else None
    if made is None:
        return None
    usage = Usage(put=made.put, get=made.get, list=made.list, delete=made.delete, seconds=made.seconds)
    return dollars_a_month(job.seen.home, usage)


def _alarms(jobs: Iterable[_Measured]) -> Iterator[Family]:
    family = _gauge("alarm_active", "1 for each active alarm or finding of a job.", ["alarm", "severity"])
    for job in jobs:
        active = {(found.code.replace("-", "_"), found.severity) for found in history_findings(job.seen)}
        for code, severity in sorted(active):
            if severity != "info":
                family.add_metric([job.seen.job, code, severity], 1)
    yield family
