"""Standard streams that were closed by the caller (`holdfast … >&-`, some supervisors).

The next file that is opened gets the descriptor of a closed stream; output of the JVM or a library would then be
written to that file, which may be part of a home. So the descriptors are occupied before anything is opened.
"""

import io
import os
import sys


class Closed(io.TextIOBase):
    """Discards text, and records whether there was any."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.used = False

    def write(self, text: str) -> int:
        self.used = self.used or bool(text)
        return len(text)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor


def with_standard_streams() -> Closed | None:
    """Occupy the descriptors of closed streams. Returns the stream of standard output, if that was closed."""
    for descriptor in (0, 1, 2):
        _take(descriptor)
    if sys.stderr is None:
        sys.stderr = Closed(2)
    if sys.stdout is not None:
        return None
    sys.stdout = closed = Closed(1)
    return closed


def _take(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
        os.set_inheritable(opened, True)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
