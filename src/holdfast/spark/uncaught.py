"""Ends a script that does not catch an error of `holdfast.run` with the message and the exit code of the command.

From the exit code a supervisor (systemd, Kubernetes, spark-submit, a shell) decides whether another start can help.
"""

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from holdfast.errors import HoldfastError, StopOverdue
from holdfast.workdir.unfinished import remove_unfinished

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def explain_uncaught() -> None:
    """Applies to every later error of holdfast that ends the process. Not in an interactive shell, which must survive
    it."""
    interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    if not interactive and not isinstance(sys.excepthook, _Explaining):
        sys.excepthook = _Explaining(sys.excepthook)


class _Explaining:
    def __init__(self, otherwise: _Hook) -> None:
        self._otherwise = otherwise

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        explained = isinstance(error, HoldfastError) and not os.environ.get("HOLDFAST_DEBUG")
        if explained:
            sys.stderr.write(f"holdfast: {error}\n")
        else:
            self._otherwise(kind, error, trace)
        if isinstance(error, StopOverdue):
            leave_at_once(error.exit_code)
        if isinstance(error, HoldfastError):
            sys.exit(error.exit_code)


def leave_at_once(code: int) -> NoReturn:
    """Exit without waiting for threads: one of them hangs."""
    remove_unfinished()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
