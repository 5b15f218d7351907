"""Context that is no trouble by itself, but explains trouble: network, pauses, slow storage, sizes, versions."""

import re

from holdfast.doctor.findings import counted_failures
from holdfast.doctor.findings.storage_trouble import storage_trouble
from holdfast.doctor.matching.case import CONTEXT
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

_COMPLETED = re.compile(
    r"Completed checkpoint \d+ for job \S+ \((?P<bytes>\d+) bytes"
    r"(?:, checkpointDuration=(?P<duration>\d+) ms| in (?P<duration_before_1_14>\d+) ms)?"
)
_PAUSE = re.compile(r"pause of approximately (\d+)ms")
_GC_LOG = re.compile(r"Pause (?:Full|Young).* (\d+)(?:\.\d+)?ms|Full GC.* (\d+)\.(\d+) secs")
_IN_QUEUE = re.compile(r"checkpoint request time in queue: (\d+)")
_HEARTBEAT_DELAY = re.compile(r"heartbeat was sent \[(\d+)\] ms ago")
_SLOW_HDFS = re.compile(r"[Ss]low (?:waitForAckedSeqno|ReadProcessor|flushOrSync|BlockReceiver)\D*?(\d+) ?ms")
_ASYNC_PART = re.compile(r"asynchronous part\) in thread .* took (\d+) ms")
_FLINK_VERSION = re.compile(r"\(Version: (\d+(?:\.\d+)+)")
_SPARK_VERSION = re.compile(r"Running Spark version (\d+(?:\.\d+)+)")
_LONG_PAUSE_MS = 3_000
_SLOW_MS = 10_000


def _completed(event: LogEvent) -> Clue | None:
    match = _COMPLETED.search(event.message)
    if match is None:
        return Clue(shown(event)) if event.message.startswith("Completed checkpoint ") else None
    measures = {"bytes": int(match["bytes"])}
    duration = match["duration"] or match["duration_before_1_14"]
    if duration is not None:
        measures["duration_ms"] = int(duration)
    return Clue(shown(event), measures=measures)


_NETWORK = (
    "eartbeat of TaskManager with id",
    "heartbeat of JobManager with id",
    "heartbeat of ResourceManager with id",
    "is no longer reachable",
    "Association with remote system",
    "Connection reset by peer",
    "RemoteTransportException",
    "LocalTransportException",
    "Ask timed out on",
    "Lost connection to task manager",
    "failed to report completed checkpoint",
    "Issue communicating with driver in heartbeater",
    "RpcTimeoutException",
)


def _network(event: LogEvent) -> Clue | None:
    text = whole(event)
    if "eartbeat of" in text and "timed out" not in text:
        return None
    return Clue(shown(event))


def _pause(event: LogEvent) -> Clue | None:
    """A process that paused: garbage collection, or no CPU."""
    text = whole(event)
    if "GC overhead limit exceeded" in text:
        return Clue(shown(event), "gc")
    if match := _PAUSE.search(text) or _HEARTBEAT_DELAY.search(text):
        milliseconds = int(match[1])
        return Clue(shown(event), "gc" if "pause" in text else "cpu", measures={"pause_ms": milliseconds})
    if match := _GC_LOG.search(text):
        milliseconds = int(match[1]) if match[1] else int(match[2]) * 1000
        return Clue(shown(event), "gc", measures={"pause_ms": milliseconds}) if milliseconds >= _LONG_PAUSE_MS else None
    if match := _IN_QUEUE.search(text):
        milliseconds = int(match[1])
        return (
            Clue(shown(event), "cpu", measures={"pause_ms": milliseconds}) if milliseconds >= _LONG_PAUSE_MS else None
        )
    if "Thread starvation or clock leap" in text:
        return Clue(shown(event), "cpu")
    return None


def _task_busy(event: LogEvent) -> Clue | None:
    return Clue(shown(event), "barrier-waits")


def _cleanup(event: LogEvent) -> Clue | None:
    return Clue(shown(event))


def _slow_storage(event: LogEvent) -> Clue | None:
    text = whole(event)
    if match := _SLOW_HDFS.search(text) or _ASYNC_PART.search(text):
        milliseconds = int(match[1])
        return Clue(shown(event), measures={"slow_ms": milliseconds}) if milliseconds >= _SLOW_MS else None
    if "reduce your request rate" in text or "SlowDown" in text:
        return Clue(shown(event), "throttled")
    return None


def _version(event: LogEvent) -> Clue | None:
    match = _FLINK_VERSION.search(event.message) or _SPARK_VERSION.search(event.message)
    return Clue(shown(event), mentions={"version": match[1]}) if match else None


def _aborted(event: LogEvent) -> Clue | None:
    """A checkpoint that the coordinator aborted while tasks may still have been writing it.

    A task that declines because it cannot write is the trouble itself, not a consequence.
    """
    if event.checkpoint is None or storage_trouble(whole(event)) is not None:
        return None
    return Clue(shown(event), "declined" if "ecline" in event.message else "discarded")


def _fresh_start(event: LogEvent) -> Clue | None:
    return Clue(shown(event))


CONTEXT_RULES = (
    Rule(CONTEXT + "completed", ("Completed checkpoint ",), _completed, frequent=True),
    Rule(CONTEXT + "network", _NETWORK, _network),
    Rule(
        CONTEXT + "pause",
        (
            "pause of approximately",
            "Pause Full",
            "Pause Young",
            "Full GC",
            "heartbeat was sent [",
            "GC overhead limit exceeded",
            "checkpoint request time in queue",
            "Thread starvation or clock leap",
        ),
        _pause,
    ),
    Rule(CONTEXT + "task-busy", ("Time from receiving all checkpoint barriers/RPC",), _task_busy),
    Rule(
        CONTEXT + "cleanup",
        (
            "Could not properly discard completed checkpoint",
            "Fail to discard the old checkpoint",
            "Could not properly dispose the private states",
            "Could not delete the checkpoint",
            "Error cleaning up files",
        ),
        _cleanup,
    ),
    Rule(
        CONTEXT + "slow-storage",
        (
            "low waitForAckedSeqno",
            "low ReadProcessor",
            "low flushOrSync",
            "low BlockReceiver",
            "asynchronous part) in thread",
            "reduce your request rate",
            "SlowDown",
        ),
        _slow_storage,
    ),
    Rule(CONTEXT + "version", ("(Version: ", "Running Spark version"), _version),
    Rule(CONTEXT + "aborted", ("Discarding checkpoint ", "Decline checkpoint "), _aborted),
    counted_failures.RULE,
    Rule(CONTEXT + "fresh-start", ("No checkpoint found during restore",), _fresh_start),
)
