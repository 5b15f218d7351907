"""Progress of long operations: as log lines, unless the caller of the process displays it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from holdfast.job_log import about_the_same, begin_step, current_step, log, progress_count, report_progress
from holdfast.runtime.clock import Clock

Advance = Callable[[int], None]
"""Takes the number of bytes just done. Any thread may call it."""
Show = Callable[[str, int], AbstractContextManager[Advance]]

_LINE = 16 << 20
"""Minimum number of bytes between two lines."""
_LINES = 10


@contextmanager
def byte_progress(title: str, total: int) -> Iterator[Advance]:
    begin_step(f"{title}: {_megabytes(total)}")
    with _SHOW.get()(title, total) as shown:

        def advance(size: int) -> None:
            report_progress()
            shown(size)

        yield advance


@contextmanager
def showing_with(show: Show) -> Iterator[None]:
    """Applies to this thread, and to those that it starts for the job."""
    token = _SHOW.set(show)
    try:
        yield
    finally:
        _SHOW.reset(token)


@contextmanager
def in_lines(title: str, total: int) -> Iterator[Advance]:
    step, lock = max(_LINE, total // _LINES), threading.Lock()
    done, next_line = 0, step

    def advance(size: int) -> None:
        nonlocal done, next_line
        with lock:
            done += size
            if not next_line <= done < total:
                return
            next_line = done + step
            now = done
        log.info("%s: %s of %s", title, _megabytes(now), _megabytes(total))

    yield advance


@contextmanager
def still_saying(clock: Clock, after_s: float = 10.0) -> Iterator[None]:
    """Repeats the current step of a start when it has not changed for this long, then twice as long, and so on."""
    over = threading.Event()

    def say() -> None:
        seen, since, due = progress_count(), clock.monotonic(), after_s
        while not over.wait(after_s / 10):
            for_s = clock.monotonic() - since
            if progress_count() != seen:
                seen, since, due = progress_count(), clock.monotonic(), after_s
            elif for_s >= due:
                due *= 2
                log.info("still %s, for %.0f s", current_step().partition(",")[0], for_s)

    thread = threading.Thread(target=about_the_same(say), name="holdfast-still", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _megabytes(size: int) -> str:
    return f"{size:,} bytes" if size < 100_000 else f"{size / 1e6:,.1f} MB"


_SHOW: ContextVar[Show] = ContextVar("holdfast_show", default=in_lines)
