"""Standard streams that somebody closed (`holdfast … >&-`, some supervisors).

A closed descriptor is given to the next file that is opened; what the JVM or a library prints would then end in that
file, which may be a part of a home. So the places are taken before anything is opened.
"""

import io
import os
import sys


class Closed(io.TextIOBase):
    """Takes text to nowhere, and knows whether there was any."""

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
    """Fill the places of streams that are closed. The one of standard output, when it is."""
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
