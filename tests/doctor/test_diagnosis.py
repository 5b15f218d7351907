"""From events to findings: adding up, attribution to jobs, causes by evidence, consequences attached to their cause."""

import itertools
import random

import pytest
from msgspec.structs import replace

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.diagnosis.flink_keys import for_version
from holdfast.doctor.diagnosis.timeline import FOLLOWS_FROM
from holdfast.doctor.findings import KNOWLEDGE
from holdfast.doctor.findings.known_bugs import bugs_of
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.sightings import Sighting, merged, observe
from holdfast.doctor.reading.events import LogEvent
from holdfast.finding import Finding
from tests.doctor.events import MINUTE, NOON, completed, event, expired

DISK_FULL = ("java.io.IOException", "No space left on device")
MAGIC = ("org.rocksdb.RocksDBException", "Bad table magic number: expected 1, found 2 in /tmp/db/000210.sst")


def findings(*events: LogEvent) -> tuple[Finding, ...]:
    return diagnose(observe(events, RULES))


def write_failed(at: int | None = NOON, checkpoint: int = 7, **fields: object) -> LogEvent:
    return event(f"Could not materialize checkpoint {checkpoint}", DISK_FULL, at=at, checkpoint=checkpoint, **fields)


def restarting(at: int | None) -> LogEvent:
    return event(f"Job x ({'a' * 32}) switched from state RUNNING to RESTARTING.", at=at)


def exceeded(at: int | None) -> LogEvent:
    return event(
        "Trying to recover", ("FlinkRuntimeException", "Exceeded checkpoint tolerable failure threshold."), at=at
    )


def test_nothing_seen_nothing_found() -> None:
    assert findings() == ()
    assert findings(event("all is well")) == ()


def test_every_finding_has_a_code_and_a_cause_that_always_applies() -> None:
    codes = [known.code for known in KNOWLEDGE]
    assert len(set(codes)) == len(codes)
    for known in KNOWLEDGE:
        assert known.symptom
        assert known.causes, known.code
        assert all(rule.needles for rule in known.rules)
    assert all(needle.strip() for rule in RULES for needle in rule.needles)


def test_what_follows_from_what_has_no_circle_and_names_only_findings() -> None:
    codes = {known.code for known in KNOWLEDGE}
    assert set(FOLLOWS_FROM) | {cause for causes in FOLLOWS_FROM.values() for cause in causes} <= codes

    def reaches(code: str, seen: frozenset[str]) -> None:
        assert code not in seen, code
        for cause in FOLLOWS_FROM.get(code, ()):
            reaches(cause, seen | {code})

    for code in codes:
        reaches(code, frozenset())


def test_the_answer_does_not_depend_on_the_order_or_on_how_logs_were_split() -> None:
    events = [
        *(expired(n, NOON + n * MINUTE, line=n, source=f"jm-{n % 3}.log") for n in range(1, 30)),
        *(write_failed(NOON + n * MINUTE, n, line=100 + n) for n in range(1, 30)),
        *(completed(n, NOON + n * 7 * MINUTE, line=200 + n, size=n * 10**9) for n in range(1, 9)),
        exceeded(NOON + 31 * MINUTE),
        *(restarting(NOON + n * MINUTE) for n in range(33, 40)),
    ]
    whole = diagnose(observe(events, RULES))
    generator = random.Random(4)
    for _ in range(5):
        generator.shuffle(events)
        pieces = [observe(events[at : at + 7], RULES) for at in range(0, len(events), 7)]
        generator.shuffle(pieces)
        assert diagnose(merged(itertools.chain.from_iterable(pieces))) == whole


def test_what_is_kept_does_not_grow_with_repetition() -> None:
    def seen(count: int) -> list[Sighting]:
        everything = observe((expired(n, NOON + n, line=n) for n in range(count)), RULES)
        return [sighting for sighting in everything if sighting.key.code == "checkpoint-expired"]

    assert len(seen(2_000)) == len(seen(10)) == 1
    kept = seen(2_000)[0]
    assert kept.count == 2_000
    assert [sample.line for sample in kept.samples] == [0, 1, 2]
    assert len(kept.checkpoints) == 20


def test_the_first_cause_is_reported_and_its_consequences_are_attached() -> None:
    first, *others = findings(
        write_failed(NOON), exceeded(NOON + 1000), *(restarting(NOON + n * 5000) for n in range(1, 5))
    )
    assert (first.code, first.severity) == ("snapshot-write-failed", "critical")
    assert [effect.code for effect in first.consequences] == ["tolerable-failures-exceeded", "restart-loop"]
    assert others == []


def test_a_consequence_long_after_its_cause_stands_by_itself() -> None:
    found = findings(write_failed(NOON), exceeded(NOON + 1000), exceeded(NOON + 300 * MINUTE))
    assert [finding.code for finding in found] == ["snapshot-write-failed", "tolerable-failures-exceeded"]
    assert [finding.count for finding in found] == [1, 1]


def test_what_comes_before_is_no_consequence() -> None:
    found = findings(exceeded(NOON), write_failed(NOON + 30 * MINUTE))
    assert [finding.code for finding in found] == ["tolerable-failures-exceeded", "snapshot-write-failed"]


def test_jobs_are_not_mixed_up() -> None:
    found = findings(write_failed(NOON), replace(exceeded(NOON + 1), job="b" * 32))
    assert {(finding.code, finding.job) for finding in found} == {
        ("snapshot-write-failed", "a" * 32),
        ("tolerable-failures-exceeded", "b" * 32),
    }


def test_what_names_no_job_belongs_to_the_only_job_around() -> None:
    pause = event("Detected pause in JVM: pause of approximately 40000ms", job=None, source="logs/taskmanager.log")
    one, *_ = findings(expired(1, source="logs/jobmanager.log"), pause)
    assert one.cause.startswith("the JobManager, driver or workers paused")


def test_what_names_no_job_is_not_given_to_a_job_of_the_other_engine_or_of_another_time() -> None:
    lost = event("Lost executor 2 on worker-7: Container killed by YARN", job=None, source="logs/driver.log")
    of_spark = replace(lost, logger="org.apache.spark.scheduler.TaskSchedulerImpl")
    assert {finding.job for finding in findings(expired(1), of_spark)} == {"a" * 32, None}
    pause = event(
        "pause of approximately 40000ms", job=None, source="logs/taskmanager.log", at=NOON - 3 * 24 * 60 * MINUTE
    )
    one, *_ = findings(expired(1, source="logs/jobmanager.log"), pause)
    assert one.cause.startswith("the logs do not show why")


def test_one_failure_that_was_got_over_is_no_more_than_a_warning() -> None:
    assert findings(expired(1))[0].severity == "critical"
    assert findings(expired(1), completed(2, NOON + MINUTE))[0].severity == "warning"
    assert findings(completed(2, NOON - MINUTE), expired(1))[0].severity == "critical"
    assert findings(write_failed(None, line=1), completed(8, None, line=9))[0].severity == "warning"


@pytest.mark.parametrize(
    ("context", "line"),
    [
        (event("Association with remote system [akka.tcp://flink@10.0.0.4] has failed"), "heartbeat.timeout: 120000"),
        (event("Full GC (Allocation Failure) took 31.5 secs", logger="gc"), "jobmanager.memory.process.size: 4g"),
        (event("Could not properly discard completed checkpoint 3."), "jobmanager.io-pool.size: 16"),
        (
            event("Slow waitForAckedSeqno took 60000ms (threshold=30000ms)."),
            "state.backend.rocksdb.checkpoint.transfer.thread.num: 8",
        ),
        (
            event("Time from receiving all checkpoint barriers/RPC for checkpoint 9 to executing it exceeded 9ms"),
            "execution.checkpointing.unaligned.enabled: true",
        ),
        (completed(8, NOON - 20 * MINUTE, size=40 * 10**9, took=550_000), "state.backend.incremental: true"),
        (
            event("Starting StandaloneSessionClusterEntrypoint (Version: 1.10.1, Scala: 2.11)"),
            "# FLINK-19401: the JobManager is blocked by reading checkpoints repeatedly during restarts; "
            "fixed in 1.12.0",
        ),
    ],
    ids=["network", "gc", "cleanup", "storage", "backpressure", "large-state", "version"],
)
def test_the_cause_of_an_expired_checkpoint_is_told_by_what_else_the_logs_say(context: LogEvent, line: str) -> None:
    found = {finding.code: finding for finding in findings(expired(9), expired(10), context)}
    assert line in found["checkpoint-expired"].fix
    alone = findings(expired(9), expired(10))[0]
    assert line not in alone.fix or line.startswith("heartbeat")


def test_the_time_out_is_taken_from_the_log_where_it_does_not_say_it() -> None:
    def triggered(checkpoint: int, at: int) -> LogEvent:
        text = f"Triggering checkpoint {checkpoint} (type=CHECKPOINT) @ {at} for job {'a' * 32}."
        return event(text, at=at, checkpoint=checkpoint, level="INFO")

    short = findings(triggered(9, NOON - 2000), expired(9))[0]
    assert short.cause == "the time-out is much shorter than a checkpoint may need"
    assert "execution.checkpointing.timeout: 10m" in short.fix
    long = findings(triggered(9, NOON - 30 * MINUTE), expired(9))[0]
    assert "execution.checkpointing.timeout: 45m" in long.fix


def test_context_far_away_in_time_explains_nothing() -> None:
    pause = event("Detected pause in JVM: pause of approximately 40000ms", at=NOON - 300 * MINUTE)
    assert "the logs do not show why" in findings(expired(9), pause)[0].cause


def test_a_write_to_a_discarded_checkpoint_is_another_trouble() -> None:
    missing = event(
        "Task switched from RUNNING to FAILED: Could not materialize checkpoint 7",
        ("java.io.IOException", "Path doesn't exist: /flink/chk-7/84631771"),
        checkpoint=7,
    )
    discarding = event(f"Discarding checkpoint 7 of job {'a' * 32}.", at=NOON - 50, checkpoint=7)
    assert findings(missing)[0].code == "snapshot-write-failed"
    assert findings(discarding, missing)[0].code == "discarded-checkpoint-failed-task"


@pytest.mark.parametrize(
    ("text", "variant_line"),
    [
        ("All datanodes DatanodeInfoWithStorage[x] are bad. Aborting...", "dfs.client.block.write.replace"),
        ("No space left on device", "state.checkpoints.num-retained: 1"),
        ("Permission denied: user=flink, access=WRITE", "# give the job's role write"),
        (
            "Please reduce your request rate. (Service: Amazon S3; Error Code: SlowDown",
            "s3.entropy.key",
        ),
        ("Path doesn't exist: /flink/chk-7/84631771", "# create the directory or bucket"),
        ("Connection refused", "execution.checkpointing.timeout: 20m"),
    ],
)
def test_why_a_snapshot_could_not_be_written(text: str, variant_line: str) -> None:
    (finding,) = findings(event("Could not complete snapshot 7 for operator x", ("java.io.IOException", text)))
    assert finding.code == "snapshot-write-failed"
    assert any(line.startswith(variant_line) for line in finding.fix)


def test_two_deployments_and_one_job_id_without_ha_are_told_apart() -> None:
    def exists(job: str, host: str, at: int) -> LogEvent:
        text = f"Target file s3://b/{job}/chk-5/_metadata already exists."
        return event("Failure to finalize checkpoint", ("java.io.IOException", text), job=job, host=host, at=at)

    fixed = findings(exists("0" * 32, "jm-1", NOON))[0]
    assert "high-availability.type: kubernetes" in fixed.fix
    two = findings(exists("c" * 32, "jm-1", NOON), exists("c" * 32, "jm-2", NOON + 5))[0]
    assert "state.checkpoints.dir: <directory of this deployment alone>" in two.fix


def test_settings_have_the_names_of_the_version_at_hand() -> None:
    assert for_version(("state.checkpoints.dir: x", "state.checkpoints.dirs"), (2, 1, 0)) == (
        "execution.checkpointing.dir: x",
        "state.checkpoints.dirs",
    )
    assert for_version(("state.checkpoints.dir: x",), (1, 20, 0)) == ("state.checkpoints.dir: x",)
    started = event("Starting KubernetesSessionClusterEntrypoint (Version: 2.1.0, Scala: 2.12)")
    corrupt = event("Could not restore keyed state backend", MAGIC)
    assert "execution.state-recovery.from-local: true" in findings(started, corrupt)[0].fix


@pytest.mark.parametrize(
    ("version", "issues"),
    [
        ((1, 18, 0), ["FLINK-33693"]),
        ((1, 18, 1), []),
        ((1, 13, 0), ["FLINK-22638"]),
        ((1, 11, 2), ["FLINK-19401"]),
        ((1, 11, 3), []),
        ((1, 8, 3), ["FLINK-19401", "FLINK-13226"]),
        (None, []),
    ],
)
def test_known_bugs_by_version(version: tuple[int, ...] | None, issues: list[str]) -> None:
    assert [bug.issue for bug in bugs_of(version)] == issues


def test_times_are_rfc_3339_in_utc() -> None:
    (finding,) = findings(expired(1, 0), expired(2, 61_000))
    assert (finding.first_seen, finding.last_seen) == ("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:01.000Z")
    (timeless,) = findings(expired(1, None))
    assert (timeless.first_seen, timeless.last_seen) == (None, None)
