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
    """Run it in a thread of low priority, and wait for it.

    On Linux a thread has its own priority, which can be lowered but not raised again, so the thread ends with the work.
    On other systems it has the usual priority.
    """
    done: Future[T] = Future()

    def run() -> None:
        with suppress(AttributeError, OSError):
            thread = threading.get_native_id()
            inherited = os.getpriority(os.PRIO_PROCESS, thread)  # an administrator may have lowered it further
            os.setpriority(os.PRIO_PROCESS, thread, max(inherited, _NICE))
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="holdfast-background", daemon=True).start()
    return done.result()
