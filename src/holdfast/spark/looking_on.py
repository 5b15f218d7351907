"""Whoever started the process may look on at the job that it runs, such as a terminal that shows its status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.spark.running import RunningJob

Onlooker = Callable[["RunningJob"], AbstractContextManager[None]]
"""Its context lasts as long as the job runs."""


@contextmanager
def looked_on_by(onlooker: Onlooker) -> Iterator[None]:
    """Applies to the jobs that this thread runs in the block."""
    token = _ONLOOKER.set(onlooker)
    try:
        yield
    finally:
        _ONLOOKER.reset(token)


def onlooker() -> Onlooker:
    return _ONLOOKER.get()


_ONLOOKER: ContextVar[Onlooker] = ContextVar("holdfast_onlooker", default=lambda job: nullcontext())
