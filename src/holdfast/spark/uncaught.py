"""How a script ends that calls `holdfast.run` and catches nothing: with the words and the exit code of the command.

A supervisor (systemd, Kubernetes, spark-submit, a shell) tells by the code whether another start can help.
"""

import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from holdfast.errors import HoldfastError, StopOverdue

_Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def explain_uncaught() -> None:
    """From here on, for an error of holdfast that ends the process. Not in a shell, which an error must not end."""
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
    """Without waiting for threads, which the end of the interpreter does: one of them hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
