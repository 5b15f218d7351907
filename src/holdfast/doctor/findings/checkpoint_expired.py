"""A checkpoint was not acknowledged in time. Seven causes look the same here; other log lines tell them apart."""

import math
import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support, Weigh, always, for_context
from holdfast.doctor.findings.known_bugs import bugs_of
from holdfast.doctor.matching.case import CONTEXT, Case, mentioned
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole
from holdfast.finding import Severity

CODE = "checkpoint-expired"
_LATE_TASK = re.compile(r"from task (\w{8,}|\S+)")
_TIMEOUT_MS = re.compile(r"timeout of \[?(\d+)\]? ?ms")
_GIGABYTE = 10**9
_DEFAULT_TIMEOUT_MS = 600_000
_SHORT_MS = 60_000


_DESCRIBED_AS = "described:"
_DESCRIBED = (
    "acknowledge completed checkpoints",
    "checkpoint completion",
    "acknowledging the checkpoint",
    "checkpointing timeouts",
    "checkpoint acknowledgments",
    "savepoint cleanup",
    "state size of your checkpoints",
    "frequency of large checkpoints",
    "checkpointing coordination",
    "-running savepoint",
    "asynchronous savepoint cleanup",
    "performance of your state backend",
    "checkpointing mechanism",
    "CPU and memory usage",
    "High Checkpoint Throughput",
)
"""Words of a guide about late acknowledgements, not of a runtime."""
_TOPICS = (
    ("version", re.compile(r"[Vv]ersion [Bb]ugs|known issues|[Bb]ug fixes|[Rr]elease notes")),
    ("slow-cleanup", re.compile(r"savepoint[ .]cleanup")),
    ("state-too-large", re.compile(r"[Ll]arge [Ss]tate|state size|large checkpoints")),
    ("slow-storage", re.compile(r"[Bb]ottleneck|slow (?:S3|write)|performance of your state backend")),
    ("pause", re.compile(r"JobManager CPU|JVM heap|overloaded|garbage collection")),
    ("network", re.compile(r"packet loss|[Nn]etwork (?:[Ll]atency|partition|blips)")),
)


def _described(event: LogEvent) -> Clue | None:
    """Nothing happened as far as this text shows: what is known about it is told, as possible."""
    bare = event.logger is None and event.level is None and not event.exceptions
    if not bare:
        return None
    topic = next((name for name, pattern in _TOPICS if pattern.search(event.message)), "")
    return Clue(shown(event), _DESCRIBED_AS + topic)


def _or_described(weigh: Weigh, topic: str) -> Weigh:
    """What a guide is about comes before what it does not mention; it is no evidence that anything happened."""

    def weigh_both(case: Case, seen: Sightings) -> Support:
        support = weigh(case, seen)
        if support.weight or not any(sighting.key.variant == _DESCRIBED_AS + topic for sighting in seen):
            return support
        return Support(1)

    return weigh_both


def _grade(case: Case, seen: Sightings, severity: Severity) -> Severity:
    return "info" if all(sighting.key.variant.startswith(_DESCRIBED_AS) for sighting in seen) else severity


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if "Exceeded checkpoint tolerable" in text:
        return None
    mentions = {}
    late = "late message" in text or "too late" in text
    if late and (task := event.task or _match(_LATE_TASK, text)):
        mentions["task"] = task
    if not late and (moment := _moment(event)):
        mentions["moment"] = moment
    timeout = _match(_TIMEOUT_MS, text)
    return Clue(shown(event), "late" if late else "expired", mentions, {"timeout_ms": int(timeout)} if timeout else {})


def _triggered(event: LogEvent) -> Clue | None:
    moment = _moment(event)
    return Clue(shown(event), mentions={"moment": moment}) if moment else None


def _moment(event: LogEvent) -> str | None:
    """Of a checkpoint; in the order of ids, so that of many the same ones are kept as triggered and as expired."""
    if event.checkpoint is None or event.time is None:
        return None
    return f"{event.checkpoint:018}@{event.time}"


def _match(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None


def _large_state(case: Case, seen: Sightings) -> Support:
    """Completed checkpoints are large, or take most of the time-out."""
    completed = case.of(CONTEXT + "completed")
    size = case.measure(CONTEXT + "completed", "bytes")
    duration = case.measure(CONTEXT + "completed", "duration_ms")
    long = duration is not None and duration.most >= _timeout_ms(case) // 2
    large = size is not None and size.most >= 10 * _GIGABYTE
    grown = size is not None and size.most >= _GIGABYTE and size.most >= 3 * size.least
    return Support(35 * long + 20 * large + 20 * grown, completed[-1:])


def _one_slow_task(case: Case, seen: Sightings) -> Support:
    """The same task is late repeatedly, or logs that barriers wait behind data."""
    busy = case.near(seen, CONTEXT + "task-busy")
    late = [sighting for sighting in seen if sighting.key.variant == "late"]
    repeated = sum(sighting.count for sighting in late) >= 2 and len(mentioned(late, "task")) == 1
    return Support(45 * bool(busy) + 30 * repeated, [*busy, *(late if repeated else ())])


def _known_bug(case: Case, seen: Sightings) -> Support:
    affected = bugs_of(case.version) if case.engine != "spark" else []
    return Support(15 if affected else 0, case.of(CONTEXT + "version") if affected else ())


def _upgrade(case: Case, seen: Sightings) -> Fix:
    affected = bugs_of(case.version)
    known = tuple(f"# {bug.issue}: {bug.effect}; fixed in {bug.release}" for bug in affected)
    return Fix(flink=known or ("# upgrade Flink; run one version everywhere",))


def _timeout_ms(case: Case) -> int:
    """From the log, or the time from trigger to expiry, or the default."""
    measured = case.measure(CODE, "timeout_ms")
    return measured.most if measured else _seen_timeout_ms(case) or _DEFAULT_TIMEOUT_MS


def _seen_timeout_ms(case: Case) -> int | None:
    triggered, expired = (_moments(case, code) for code in (CONTEXT + "triggered", CODE))
    waits = [expired[id] - triggered[id] for id in expired.keys() & triggered.keys()]
    return min((wait for wait in waits if wait > 0), default=None)


def _moments(case: Case, code: str) -> dict[str, int]:
    split = (moment.partition("@") for moment in mentioned(case.of(code), "moment"))
    return {id: int(time) for id, _, time in split}


def _short_timeout(case: Case, seen: Sightings) -> Support:
    return Support(46 if _timeout_ms(case) < _SHORT_MS else 0, case.near(seen, CONTEXT + "triggered")[:1])


def _timeout_fix(case: Case, seen: Sightings) -> Fix:
    duration = case.measure(CONTEXT + "completed", "duration_ms")
    minutes = max(10, math.ceil((duration.most if duration else 0) * 3 / 60_000))
    return Fix(
        flink=(f"execution.checkpointing.timeout: {minutes}m",),
        spark=("spark.network.timeout=300s",),
        holdfast=(f'timeout="{minutes}m"',),
    )


def _longer(case: Case, factor: float = 1.5) -> str:
    minutes = max(1, round(_timeout_ms(case) * factor / 60_000))
    return f"{minutes}m"


def _network_fix(case: Case, seen: Sightings) -> Fix:
    return Fix(
        flink=(
            f"execution.checkpointing.timeout: {_longer(case)}",
            "heartbeat.timeout: 120000",
            "# check for packet loss and retransmissions between the TaskManagers and the JobManager",
        ),
        spark=("spark.network.timeout=300s", "spark.executor.heartbeatInterval=20s"),
        holdfast=(f'timeout="{_longer(case)}"', "# the next checkpoint reuses what was uploaded"),
    )


def _interval_fix(case: Case, seen: Sightings) -> Fix:
    duration = case.measure(CONTEXT + "completed", "duration_ms")
    minutes = max(5, round((duration.most if duration else 0) * 2 / 60_000))
    return Fix(
        flink=(
            f"execution.checkpointing.interval: {minutes}m",
            "state.backend.type: rocksdb",
            "state.backend.incremental: true",
            f"execution.checkpointing.timeout: {_longer(case, 2)}",
        ),
        spark=(
            "spark.sql.streaming.stateStore.providerClass="
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",
        ),
        holdfast=(f'interval="{minutes}m"', "# only files that are new since the last checkpoint are uploaded"),
    )


def _storage_fix(case: Case, seen: Sightings) -> Fix:
    return Fix(
        flink=(
            f"execution.checkpointing.timeout: {_longer(case, 2)}",
            "state.backend.incremental: true",
            "state.backend.rocksdb.checkpoint.transfer.thread.num: 8",
            "execution.checkpointing.max-concurrent-checkpoints: 1",
        ),
        spark=("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",),
        holdfast=(f'timeout="{_longer(case, 2)}"', "# holdfast show ID names the slowest shards and phases"),
    )


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="checkpoints were not acknowledged within their time-out",
    rules=(
        Rule(
            CODE,
            (
                "expired before completing",
                "late message for now expired checkpoint",
                "Checkpoint is too late",
                "exceeded checkpoint timeout",
            ),
            _recognise,
        ),
        Rule(CODE, _DESCRIBED, _described, of_guides=True),
        Rule(CONTEXT + "triggered", ("Triggering checkpoint ",), _triggered, frequent=True),
    ),
    causes=(
        Cause(
            "network",
            "connections between the workers and the JobManager or driver were lost or slow, so acknowledgements came "
            "late",
            _network_fix,
            _or_described(for_context(CONTEXT + "network", weight=48), "network"),
            tell="ping and traceroute from a TaskManager to the JobManager; retransmissions by netstat -s",
        ),
        Cause(
            "pause",
            "the JobManager, driver or workers paused (garbage collection, or too little CPU) and could not process "
            "acknowledgements",
            Fix(
                flink=(
                    "jobmanager.memory.process.size: 4g",
                    "kubernetes.jobmanager.cpu: 2",
                    "taskmanager.memory.process.size: <half as much again>",
                    "execution.checkpointing.timeout: 15m",
                ),
                spark=("spark.driver.memory=8g", "spark.driver.cores=4"),
                holdfast=('timeout="15m"',),
            ),
            _or_described(for_context(CONTEXT + "pause", weight=60), "pause"),
            tell="CPU above 80 % or long pauses of the JobManager: its gc log, or Status.JVM.GarbageCollector",
        ),
        Cause(
            "slow-cleanup",
            "old checkpoints are deleted slowly, and new ones wait behind the clean-up",
            Fix(
                flink=(
                    "execution.checkpointing.timeout: 15m",
                    "state.checkpoint.cleaner.parallel-mode: true",
                    "jobmanager.io-pool.size: 16",
                    "state.checkpoints.num-retained: 1",
                ),
                spark=("spark.sql.streaming.minBatchesToRetain=100",),
                holdfast=("# deletes run in the background at a limited rate and never delay a checkpoint",),
            ),
            _or_described(for_context(CONTEXT + "cleanup", weight=50), "slow-cleanup"),
            tell="many files in state.checkpoints.dir; jobmanager-io threads that delete, in a thread dump",
        ),
        Cause(
            "slow-storage",
            "the checkpoint storage is slow to write the snapshots",
            _storage_fix,
            _or_described(for_context(CONTEXT + "slow-storage", weight=55), "slow-storage"),
            tell="asynchronous duration in the checkpoint's details; PUT latency, or hdfs dfsadmin -report",
        ),
        Cause(
            "state-too-large",
            "the state is too large to be written within the time-out",
            _interval_fix,
            _or_described(_large_state, "state-too-large"),
            tell="lastCheckpointSize and lastCheckpointDuration against interval and time-out",
        ),
        Cause(
            "version",
            "this version has known bugs that delay or lose checkpoints",
            _upgrade,
            _or_described(_known_bug, "version"),
            tell="the release notes of the versions after this one; the same version on every host",
        ),
        Cause(
            "backpressure-or-skew",
            "one task is much slower than the others (skew, or back-pressure before it), and barriers wait behind its "
            "data",
            Fix(
                flink=(
                    "execution.checkpointing.unaligned.enabled: true",
                    "execution.checkpointing.aligned-checkpoint-timeout: 30s",
                    "taskmanager.network.memory.buffer-debloat.enabled: true",
                    "# find the busy subtask in the web UI, and spread its keys",
                ),
                spark=(
                    "spark.sql.shuffle.partitions=<more, before the first start>",
                    "# salt the skewed key",
                ),
                holdfast=("# holdfast show ID names a shard that is larger or slower than the others",),
            ),
            _one_slow_task,
            tell="busyTimeMsPerSecond of the subtasks, and alignment duration in the checkpoint's details",
        ),
        Cause(
            "short-timeout",
            "the time-out is much shorter than a checkpoint may need",
            _timeout_fix,
            _short_timeout,
        ),
        Cause(
            "network-likely",
            "the logs do not show why; most often the network between the workers and the JobManager, then a "
            "JobManager with too little CPU",
            _network_fix,
            always(),
        ),
    ),
    references=("FLINK-15922", "holdfast: docs/failures.md"),
    heals=True,
    grade=_grade,
)
