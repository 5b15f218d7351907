"""The living status of `holdfast run` on a terminal: a few lines below the log that change in place.

Elsewhere there is only the log, in plain lines.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from holdfast.cli import figures
from holdfast.cli.output import below_the_log
from holdfast.cli.progress import byte_progress
from holdfast.job_log import log
from holdfast.runtime.progress import Advance, in_lines
from holdfast.runtime.reports.status import CheckpointUnderWay, JobStatus

if TYPE_CHECKING:
    from rich.text import Text

_EVERY_S = 0.5
_ROWS_EVERY_S = 2.0
"""Spark is asked less often than the status is painted."""
_BAR = 20
_ALARMS = 3
_STYLES = {"critical": "bold red", "warning": "yellow", "info": "default"}


class Watched(Protocol):
    """A `RunningJob`, as far as it is looked at."""

    @property
    def query(self) -> Any: ...
    def status(self) -> JobStatus: ...


def rows_per_second(query: Any) -> float | None:
    """Of the newest batch, by Spark; None when it does not say."""
    try:
        progress = query.lastProgress if query is not None else None
        value = progress["processedRowsPerSecond"] if progress is not None else None
        return float(value) if value is not None else None
    except Exception as error:
        log.debug("could not ask Spark for its progress: %s", error)
        return None


def status_lines(status: JobStatus, rows: float | None, now: float) -> list["Text"]:
    """`now` on the clock that the job runs by. Pure."""
    from rich.text import Text

    lines = [_first_line(status, rows, now)]
    lines += [_under_way(each, now) for each in status.under_way]
    for alarm in status.alarms[:_ALARMS]:
        text = f"  {alarm.severity} {alarm.code}: {' '.join(alarm.message.split())}"
        lines.append(Text(text, _STYLES[alarm.severity], no_wrap=True, overflow="ellipsis"))
    if len(status.alarms) > _ALARMS:
        lines.append(Text(f"  and {figures.counted(len(status.alarms) - _ALARMS, 'more alarm')}", "yellow"))
    return lines


def _first_line(status: JobStatus, rows: float | None, now: float) -> "Text":
    from rich.text import Text

    counts = status.statistics
    parts = ["no batch yet" if status.barrier is None else f"batch {status.barrier}"]
    if rows is not None:
        parts.append(f"{rows:,.0f} rows/s")
    if counts.last_completed is None or counts.last_completed_at is None:
        parts.append("no checkpoint in this run yet")
    else:
        ago = figures.duration(max(0.0, now - counts.last_completed_at) * 1000)
        parts.append(f"checkpoint {counts.last_completed} {ago} ago")
    if status.published is not None:
        parts.append(f"published up to {status.published}")
    if counts.consecutive_failures:
        parts.append(f"{counts.consecutive_failures} failed in a row")
    if status.restarts:
        parts.append(figures.counted(status.restarts, "restart"))
    state = ("ending", "yellow") if status.ended else ("●", "green") if status.running else ("✕", "bold red")
    text = Text.assemble((status.job, "bold"), " ", state, "  ", " · ".join(parts))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _under_way(each: CheckpointUnderWay, now: float) -> "Text":
    from rich.text import Text

    name = each.kind if each.id is None else f"{each.kind} {each.id}"
    took = figures.duration(max(0.0, now - each.triggered_at) * 1000)
    text = Text(f"  {name} of batch {each.barrier}: {each.phase}", "cyan", no_wrap=True, overflow="ellipsis")
    if each.shards:
        done, left = figures.split_bar(each.shards_acknowledged, each.shards, _BAR)
        text.append(f" {done}").append(left, "dim").append(f" {each.shards_acknowledged} of {each.shards} shards")
    return text.append(f", {took}")


@dataclass
class RunScreen:
    """Paints the status of one job on a thread of its own, from its start to its end."""

    every_s: float = _EVERY_S
    _shown: bool = False

    def bytes(self, title: str, total: int) -> AbstractContextManager[Advance]:
        """A bar of its own before the status is there; below it there is room for one only."""
        return in_lines(title, total) if self._shown else byte_progress(title, total)

    @contextmanager
    def watch(self, job: Watched) -> Iterator[None]:
        from rich.console import Group
        from rich.live import Live

        over = threading.Event()
        rows, rows_at = None, float("-inf")

        def renewed() -> Group:
            nonlocal rows, rows_at
            now = time.monotonic()
            if now - rows_at >= _ROWS_EVERY_S:
                rows, rows_at = rows_per_second(job.query), now
            return Group(*status_lines(job.status(), rows, now))

        with Live(console=below_the_log(), auto_refresh=False, transient=True, redirect_stdout=False) as live:
            thread = threading.Thread(
                target=lambda: _paint(lambda: live.update(renewed(), refresh=True), over, self.every_s),
                name="holdfast-screen",
                daemon=True,
            )
            self._shown = True
            thread.start()
            try:
                yield
            finally:
                over.set()
                thread.join(1.0)  # a JVM that hangs must not hold up the end
                self._shown = False


def _paint(paint: Callable[[], None], over: threading.Event, every_s: float) -> None:
    """A terminal that went away is no reason to stop a job."""
    while True:
        try:
            paint()
        except OSError:
            return
        if over.wait(every_s):
            return
