"""Work that shares a machine with batches and must not slow them."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_NICE = 10


def in_the_background(work: Callable[[], T]) -> T:
    """Do it in a thread that yields the processor to others, and wait for it.

    On Linux a thread has a priority of its own, which may be lowered but not raised again: so the thread ends with the
    work. Elsewhere it runs as any other.
    """
    done: Future[T] = Future()

    def run() -> None:
        with suppress(AttributeError, OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="holdfast-background", daemon=True).start()
    return done.result()
