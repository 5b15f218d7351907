"""What holdfast logs. A process may run forty jobs, so every line says which one it is about.

The name belongs to the thread: it is set where a job is started, and passed to each thread that is started for it.
"""

import functools
import logging
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any

from holdfast.showing import shown

_JOB: ContextVar[str | None] = ContextVar("holdfast_job", default=None)


class _NamingTheJob(logging.LoggerAdapter[logging.Logger]):
    """Adds the job to the text, and as `job` to the record, for handlers that write fields."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        job = _JOB.get()
        if job is None:
            return msg, kwargs
        return f"{job}: {msg}", {**kwargs, "extra": {**(kwargs.get("extra") or {}), "job": job}}


class _ForPeople(logging.Filter):
    """Log text may come from outside: no escape sequence reaches a terminal, and no text can fake a log line."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = shown(record.getMessage()).replace("\n", "\n    ")
        record.args = ()
        return True


_LOGGER = logging.getLogger("holdfast")  # noqa: TID251  the one place
_LOGGER.addFilter(_ForPeople())
log = _NamingTheJob(_LOGGER)


Phased = Callable[[str, bool], None]
"""Takes the name of a phase of a start, and whether it begins or ends. Called on the phase's thread."""

_PHASED: list[Phased] = []


@contextmanager
def measured_phases(phased: Phased) -> Iterator[None]:
    """For this process: of all jobs that it starts in the block."""
    _PHASED[:] = [phased]
    try:
        yield
    finally:
        _PHASED.clear()


def begin_phase(name: str) -> None:
    for phased in _PHASED:
        phased(name, True)


def end_phase(name: str) -> None:
    """A phase that has not begun, or has ended, is none."""
    for phased in _PHASED:
        phased(name, False)


@contextmanager
def phase(name: str) -> Iterator[None]:
    """A phase of a start. Phases on different threads may overlap."""
    begin_phase(name)
    try:
        yield
    finally:
        end_phase(name)


_STEP = ["nothing yet"]
_PROGRESS = [0]


def begin_step(what: str) -> None:
    """Set the current step of a start, and say so. An error that ends the process during the start names it."""
    enter_step(what)
    log.info("%s", what)


def enter_step(what: str) -> None:
    """Set it without a line: another line says what has just been done. Named only if it takes long."""
    _STEP[0] = what
    report_progress()


def current_step() -> str:
    return _STEP[0]


def report_progress() -> None:
    """Report that the current step of a start makes progress. Called from any thread."""
    _PROGRESS[0] += 1


def progress_count() -> int:
    """A counter that changes when a start makes progress."""
    return _PROGRESS[0]


@contextmanager
def about(job: str) -> Iterator[None]:
    """Lines that this thread logs inside the block name that job."""
    token = _JOB.set(job)
    try:
        yield
    finally:
        _JOB.reset(token)


def about_the_same(work: Callable[..., None]) -> Callable[..., None]:
    """`work` for a new thread, which logs under the job of the thread that starts it."""
    return functools.partial(copy_context().run, work)
