"""Events for tests that need no log."""

from typing import Any

from holdfast.doctor.reading.events import ExceptionLink, LogEvent

NOON = 1_718_000_000_000
MINUTE = 60_000


def event(message: str, *exceptions: tuple[str, str], at: int | None = NOON, line: int = 1, **fields: Any) -> LogEvent:
    values: dict[str, Any] = {
        "source": "jobmanager.log",
        "level": "WARN",
        "logger": "org.apache.flink.runtime.checkpoint.CheckpointCoordinator",
        "thread": None,
        "host": None,
        "job": "a" * 32,
        "task": None,
        "subtask": None,
        "checkpoint": None,
        "frames": (),
    }
    links = tuple(ExceptionLink(name, text) for name, text in exceptions)
    return LogEvent(line=line, time=at, message=message, exceptions=links, **(values | fields))


def expired(checkpoint: int, at: int | None = NOON, **fields: Any) -> LogEvent:
    text = f"Checkpoint {checkpoint} of job {'a' * 32} expired before completing."
    return event(text, at=at, checkpoint=checkpoint, **fields)


def completed(checkpoint: int, at: int | None = NOON, size: int = 1000, took: int = 900, **fields: Any) -> LogEvent:
    text = f"Completed checkpoint {checkpoint} for job {'a' * 32} ({size} bytes, checkpointDuration={took} ms, x)."
    return event(text, at=at, checkpoint=checkpoint, level="INFO", **fields)
