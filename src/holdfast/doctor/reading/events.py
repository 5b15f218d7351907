"""One event of a log, whatever wrote it: the row of the doctor's table."""

from msgspec import Struct


class ExceptionLink(Struct, frozen=True):
    """One exception of a chain; `class_name` is fully qualified if it is in the log."""

    class_name: str
    message: str


class LogEvent(Struct, frozen=True):
    """A line with its continuation: further lines of the message, and the stack trace behind it.

    What is not in the log is None. `message` is capped by the parser; it has no prefix and no trace.
    A row of a Spark event log has its `Event` without `SparkListener` as `logger`, and what happened as `message`.
    """

    source: str
    """File or URL."""
    line: int
    """Of the first line, from 1."""
    time: int | None
    """Milliseconds since 1970 in UTC; a log without a zone is taken as UTC."""
    level: str | None
    logger: str | None
    thread: str | None
    host: str | None
    """Host, pod or container, by the prefix of the line."""
    job: str | None
    """Flink's 32 hexadecimal digits, or the id of Spark's streaming query."""
    task: str | None
    """The name of the task or operator, without its subtask."""
    subtask: str | None
    """`3/8`."""
    checkpoint: int | None
    exceptions: tuple[ExceptionLink, ...]
    """Outermost first."""
    message: str
    frames: tuple[str, ...]
    """A few frames from the top of each exception, `package.Class.method`, outermost exception first.

    Of a trace whose exceptions were cut off, those that are left.
    """
