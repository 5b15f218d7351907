"""The log of a running job on standard error: one line per event, times in UTC."""

import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from holdfast.checkpoint.difference import Difference, rows
from holdfast.cli.output import messages, one_line_json
from holdfast.cli.tracebacks import TRACEBACKS
from holdfast.job_log import log
from holdfast.showing import shown

_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
_DATE = "%Y-%m-%dT%H:%M:%SZ"


class OneLineFormatter(logging.Formatter):
    """An exception is one line with its type and message, and the file that has its traceback; HOLDFAST_DEBUG=1 shows
    it here."""

    def __init__(self) -> None:
        super().__init__(_FORMAT, _DATE)
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        if found := getattr(record, "differences", None):
            first, _, _ = record.getMessage().partition("\n")
            heading = logging.makeLogRecord({**record.__dict__, "msg": first, "args": ()})
            return f"{super().format(heading)}\n{differences_table(found)}"
        if os.environ.get("HOLDFAST_DEBUG") or not record.exc_info:
            return super().format(record)
        error = record.exc_info[1]
        plain = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        kept = TRACEBACKS.keep(error) if error is not None else None
        where = f" (traceback: {kept})" if kept is not None else ""
        return f"{super().format(plain)}: {type(error).__name__}: {shown(' '.join(str(error).split()))}{where}"


def differences_table(differences: tuple[Difference, ...]) -> str:
    """In the colours and the width of standard error."""
    from rich.table import Table

    headings, *cells = rows(differences)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading)
    for difference, row in zip(differences, cells, strict=True):
        table.add_row(*row, style="red" if difference.refused else "yellow")
    console = messages()
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


class _StandardError(logging.Handler):
    """The current `sys.stderr`: a progress bar replaces it, so that lines appear above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except Exception:
            self.handleError(record)


class JsonFormatter(logging.Formatter):
    """One JSON object per line: at, level, job, message; where there are some, error, differences, and traceback or the
    file that has it."""

    def format(self, record: logging.LogRecord) -> str:
        job, message = getattr(record, "job", None), record.getMessage()
        found = getattr(record, "differences", None)
        document: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "job": job,
            "message": (message.partition("\n")[0] if found else message).removeprefix(f"{job}: "),
        }
        if found:
            document["differences"] = found
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            document["error"] = f"{type(error).__name__}: {shown(' '.join(str(error).split()))}"
            if os.environ.get("HOLDFAST_DEBUG"):
                document["traceback"] = self.formatException(record.exc_info)
            elif (kept := TRACEBACKS.keep(error)) is not None:
                document["traceback_in"] = str(kept)
        return one_line_json(document)


FORMATS: dict[str, Callable[[], logging.Formatter]] = {"text": OneLineFormatter, "json": JsonFormatter}


def log_to_standard_error(form: str = "text") -> None:
    handler = _StandardError()
    handler.setFormatter(FORMATS[form]())
    logger = log.logger
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if os.environ.get("HOLDFAST_DEBUG") else logging.INFO)
    logger.propagate = False
    # PySpark logs each exception of the JVM with its stack trace as one line of JSON; holdfast reports it anyway.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
