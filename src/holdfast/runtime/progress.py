"""How far something that takes long has come: in lines of the log, unless whoever runs the process shows it better."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from holdfast.job_log import doing, it_moves, log

Advance = Callable[[int], None]
"""Takes the number of bytes just done. Any thread may call it."""
Show = Callable[[str, int], AbstractContextManager[Advance]]

_LINE = 16 << 20
"""Bytes between two lines, at least."""
_LINES = 10


@contextmanager
def byte_progress(title: str, total: int) -> Iterator[Advance]:
    doing(f"{title}: {_megabytes(total)}")
    with _SHOW.get()(title, total) as shown:

        def advance(size: int) -> None:
            it_moves()
            shown(size)

        yield advance


@contextmanager
def showing_with(show: Show) -> Iterator[None]:
    """In this thread, and in those that are started from it for the job."""
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


def _megabytes(size: int) -> str:
    return f"{size} bytes" if size < 100_000 else f"{size / 1e6:,.1f} MB"


_SHOW: ContextVar[Show] = ContextVar("holdfast_show", default=in_lines)
