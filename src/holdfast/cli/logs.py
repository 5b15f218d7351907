"""What a running job says, on standard error: one line per event, times in UTC."""

import logging
import os
import time

_FORMAT = "%(asctime)s %(levelname)-7s %(message)s"
_DATE = "%Y-%m-%dT%H:%M:%SZ"


class OneLineFormatter(logging.Formatter):
    """An exception becomes a few words at the end of its line; HOLDFAST_DEBUG=1 keeps the traceback."""

    def __init__(self) -> None:
        super().__init__(_FORMAT, _DATE)
        self.converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        if os.environ.get("HOLDFAST_DEBUG") or not record.exc_info:
            return super().format(record)
        error = record.exc_info[1]
        plain = logging.makeLogRecord({**record.__dict__, "exc_info": None, "exc_text": None})
        return f"{super().format(plain)}: {type(error).__name__}: {' '.join(str(error).split())}"


def log_to_standard_error() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter())
    logger = logging.getLogger("holdfast")
    logger.handlers = [handler]
    logger.setLevel(logging.DEBUG if os.environ.get("HOLDFAST_DEBUG") else logging.INFO)
    logger.propagate = False
