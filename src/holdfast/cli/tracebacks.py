"""Tracebacks of what is a defect of holdfast: kept in a file to be sent, and not shown."""

import os
import tempfile
import threading
import traceback
from pathlib import Path

from holdfast.showing import masked
from holdfast.version import VERSION

MOST = 20
"""Tracebacks of one process: what fails at each attempt would fill the disk."""


class TracebackFile:
    """One file for this process, made for the first traceback. Only its owner may read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._path: Path | None = None
        self._kept = 0

    def keep(self, error: BaseException) -> Path | None:
        """Where the traceback is. None where no file can be written."""
        with self._lock:
            try:
                if self._path is None:
                    self._path = _new_file()
                if self._kept < MOST:
                    with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                        file.write(masked("".join(traceback.format_exception(error))) + "\n")
            except OSError:
                return None
            self._kept += 1
            return self._path


def _new_file() -> Path:
    import platform

    handle, name = tempfile.mkstemp(prefix="holdfast-traceback-", suffix=".txt")
    with os.fdopen(handle, "w") as file:
        file.write(f"holdfast {VERSION}, Python {platform.python_version()}, {platform.platform()}\n\n")
    return Path(name)


TRACEBACKS = TracebackFile()
