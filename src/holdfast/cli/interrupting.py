"""SIGTERM and Ctrl-C for the commands that read and repair: they end within seconds, with one line.

The command cleans up: it withdraws its request, releases the job that it owns, removes the directory that it was
building. When that does not end, because the home does not answer, the process exits without it: an object that it was
writing to a home is complete, or nothing refers to it.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from holdfast.spark.hearing import STOPPING, Hearing
from holdfast.workdir.unfinished import remove_unfinished

UNWINDING_S = 3.0
_ON_THEIR_OWN = ("run", "demo", "doctor")
"""These commands take as long as they need to end, and handle signals themselves once they are loaded."""


class Interrupt:
    """Whether the command was interrupted, and by what."""

    number: int | None = None

    @property
    def exit_code(self) -> int:
        return 128 + (self.number or signal.SIGINT)

    def received(self, number: int, frame: FrameType | None = None) -> None:
        if self.number is None:
            self.number = number
            raise KeyboardInterrupt

    def received_once(self, number: int, frame: FrameType | None = None) -> None:
        """A second signal kills the process."""
        for each in STOPPING:
            signal.signal(each, signal.SIG_DFL)
        self.received(number)


def command_of(arguments: Sequence[str]) -> str:
    """The command's name, which `--config FILE` and `--profile NAME` may precede."""
    words = iter(arguments)
    for word in words:
        if word in ("--config", "--profile"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


@contextmanager
def interruptible(arguments: Sequence[str], report: Callable[[int], None]) -> Iterator[Interrupt]:
    """A signal raises `KeyboardInterrupt` in the block. `report` is called if the process exits without clean-up."""
    interrupt = Interrupt()
    command = command_of(arguments)
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def leave(number: int) -> None:
        remove_unfinished()
        report(128 + number)
        os._exit(128 + number)

    received = interrupt.received_once if command in _ON_THEIR_OWN else interrupt.received
    hearing = None if command in _ON_THEIR_OWN else Hearing(UNWINDING_S, leave, leave)
    previous = {number: signal.signal(number, received) for number in STOPPING}
    try:
        yield interrupt
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        if hearing is not None:
            hearing.close()
