"""Reports this run's state: in its heartbeat, and in a state file on this host.

The state file is written on its own lane whenever the thread that decides requests it. So its age shows whether that
thread is alive, even when other threads hang. It also has what cannot be written to the home.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.alarm import Alarm
from holdfast.coordination.history import FailureRecord
from holdfast.coordination.recovery_time import RecoveryEstimate
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.repository.batch_spans import summed_up
from holdfast.repository.entries import Failure, Process, RunStarted, SkippedRecords
from holdfast.repository.self_report import (
    LocalState,
    PastAlarm,
    ReportedAlarm,
    ReportedLag,
    ReportedPartition,
    ReportedReading,
    ReportedRecovery,
    ReportedRestorable,
    SelfReport,
    write_local_state,
)
from holdfast.repository.state import JobState
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ownership.ownership_watch import Beats
from holdfast.runtime.reports.status import JobStatus
from holdfast.showing import masked
from holdfast.sources.reading import KafkaReading
from holdfast.sources.restorable import Restorable


@dataclass(frozen=True)
class StateFile:
    job: str
    home: str
    path: Path
    process: Process
    run: RunStarted
    clock: Clock

    def write(self, report: SelfReport) -> None:
        """Best effort: nothing depends on it."""
        state = LocalState(
            job=self.job,
            home=masked(self.home),
            process=self.process,
            fencing_epoch=self.run.fencing_epoch,
            claim=self.run.attempt,
            started_at=self.run.at,
            written_at=self.clock.wall(),
            uptime_s=self.clock.monotonic(),
            heartbeat_s=self.run.heartbeat_s,
            interval_s=self.run.interval_s,
            report=report,
        )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_local_state(self.path, state)
        except OSError as error:
            log.debug("could not write the state file %s: %s", self.path, error)


class StateReporter:
    def __init__(self, file: StateFile | None, lanes: Lanes, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._lanes = lanes
        self._waiting = False
        self.latest = SelfReport(phase="starting")
        """Any thread may read it."""

    def remember(self, past_alarms: tuple[PastAlarm, ...]) -> None:
        """Those of earlier runs, until the first report."""
        self.latest = msgspec.structs.replace(self.latest, past_alarms=past_alarms)

    def begin_after(self, batch: BatchId | None) -> None:
        """What the last heartbeat told of stays told until the query of this run has a batch: this run may fail before,
        and its heartbeats replace that one."""
        self.latest = msgspec.structs.replace(self.latest, batch=batch)

    def starting(self) -> None:
        """Until the thread that decides exists: from any thread."""
        if self.latest.phase == "starting":
            self._submit()

    def report(self, report: SelfReport, *, due: bool) -> None:
        """On the thread that decides. Changes that are not urgent are written when a heartbeat is `due`."""
        if self.latest.phase == "ended":
            return
        due = due or _urgent(report) != _urgent(self.latest)
        self.latest = msgspec.structs.replace(report, failed_at=self._failed_at(report))
        if due:
            self._submit()

    def _failed_at(self, report: SelfReport) -> datetime | None:
        if report.last_failure is None:
            return None
        if report.consecutive_failures == self.latest.consecutive_failures:
            return self.latest.failed_at
        return self._clock.wall()

    def ended(self, reason: str) -> None:
        self.latest = msgspec.structs.replace(self.latest, phase="ended", ended_reason=masked(reason))
        self._submit()

    def _submit(self) -> None:
        """One write at a time: writes that a frozen disk delays are not repeated."""
        if self._file is None or self._waiting:
            return
        self._waiting = True
        self._lanes.submit("state_file", self._write)

    def _write(self) -> None:
        self._waiting = False  # a report after this line is written again
        if self._file is not None:
            self._file.write(self.latest)


@dataclass(frozen=True)
class BothBeats:
    """Until the thread that decides exists, also writes the state file: first, because the home may not answer."""

    reporter: StateReporter
    watch: Beats

    def beat(self) -> None:
        self.reporter.starting()
        self.watch.beat()


def report_of(status: JobStatus, state: JobState) -> SelfReport:
    counts = status.statistics
    completed = state.completed.get(counts.last_completed) if counts.last_completed is not None else None
    return SelfReport(
        phase="ending" if status.ended else "running",
        query_runs=status.running,
        restarts=status.restarts,
        batch=status.barrier,
        published=status.published,
        last_completed=counts.last_completed,
        last_completed_at=completed.at if completed else None,
        consecutive_failures=counts.consecutive_failures,
        last_failure=_failure(counts.last_failure) if counts.consecutive_failures else None,
        alarms=tuple(_alarm(alarm) for alarm in status.alarms),
        past_alarms=status.past_alarms,
        recovery=_recovery(status.recovery),
        kafka_lag=_lag(status),
        kafka_reading=_reading(status.kafka_reading),
        kafka_skipped=_skipped(status.kafka_reading),
        restorable=tuple(map(_restorable, status.restorable)),
        batches=summed_up(status.batches),
    )


def _urgent(report: SelfReport) -> tuple[object, ...]:
    return (
        report.phase,
        report.query_runs,
        report.restarts,
        report.last_completed,
        report.consecutive_failures,
        report.alarms,
    )


def _failure(record: FailureRecord | None) -> Failure | None:
    if record is None:
        return None
    rule = record.reason.rule
    return Failure(record.reason.value, masked(record.message), rule.counted, rule.hint)


def _restorable(found: Restorable) -> ReportedRestorable:
    return ReportedRestorable(
        id=found.id,
        until=None if found.until is None else datetime.fromtimestamp(round(found.until), UTC),
        gone=found.gone,
        source=found.source,
        by_size=found.by_size,
        compacts=found.compacts,
    )


_PARTITIONS_TOLD = 1000


def _lag(status: JobStatus) -> ReportedLag | None:
    lag, at = status.kafka_lag, status.kafka_lag_at
    if lag is None or at is None:
        return None
    largest = sorted(lag.partitions, key=lambda each: -each.processed)[:_PARTITIONS_TOLD]
    return ReportedLag(
        at=at,
        processed=lag.processed,
        published=lag.published,
        seconds=None if lag.seconds is None else round(lag.seconds, 1),
        at_least=lag.at_least,
        trend=lag.trend,
        caught_up_in_s=None if lag.caught_up_in_s is None else round(lag.caught_up_in_s, 1),
        partitions=tuple(
            ReportedPartition(
                topic=each.partition.topic,
                partition=each.partition.number,
                processed=each.processed,
                published=each.published,
            )
            for each in largest
        ),
    )


def _reading(seen: KafkaReading | None) -> ReportedReading | None:
    if seen is None or seen.lately is None or not seen.lately.records:
        return None
    lately = seen.lately
    hottest = max(lately.records, key=lambda part: lately.records[part])
    return ReportedReading(
        batches=lately.batches,
        every_s=round(lately.every_s, 2),
        batch_s=round(lately.batch_s, 2),
        records=lately.total,
        partitions=len(lately.records),
        tasks=seen.tasks,
        idle=sum(1 for count in lately.records.values() if not count),
        cores=seen.cores,
        hottest=str(hottest),
        hottest_records=lately.records[hottest],
        max_offsets=seen.max_offsets,
    )


def _skipped(seen: KafkaReading | None) -> tuple[SkippedRecords, ...]:
    most = sorted(seen.skipped.items(), key=lambda item: -item[1])[:_PARTITIONS_TOLD] if seen is not None else ()
    return tuple(SkippedRecords(part.topic, part.number, count) for part, count in most)


def _recovery(estimate: RecoveryEstimate | None) -> ReportedRecovery | None:
    if estimate is None:
        return None
    older_s = estimate.fall_back_seconds
    return ReportedRecovery(
        batches_behind=estimate.batches,
        seconds=round(estimate.seconds, 1),
        target_s=estimate.target_s,
        fall_back_batches=estimate.fall_back_batches,
        fall_back_seconds=None if older_s is None else round(older_s, 1),
    )


def _alarm(alarm: Alarm) -> ReportedAlarm:
    return ReportedAlarm(
        code=alarm.code,
        severity=alarm.severity,
        message=masked(alarm.message),
        hint=masked(alarm.hint),
        at=alarm.at,
        since=alarm.since,
    )
