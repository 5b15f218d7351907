"""`holdfast top`: all jobs of a home on one live screen, worst first. Where there is no terminal: once, as lines."""

import threading
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.health import judged
from holdfast.cli.home_reader import HomeReader, HomeReading
from holdfast.cli.jobs import jobs_table
from holdfast.cli.options import Home
from holdfast.cli.output import answer, print_table
from holdfast.errors import StorageUnreachable
from holdfast.settings import seconds
from holdfast.showing import masked

if TYPE_CHECKING:
    from rich.console import Group

_WORST_FIRST = {"critical": 0, "warning": 1, "well": 2}

Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="How often the home is read.")]


def top(home: Home, every: Every = "2s") -> None:
    """Show all jobs of a home on one live screen, until Ctrl-C."""
    pause = seconds("every", every, least=0.5)
    reader, console = HomeReader(home), answer()
    reading = reader.refresh()
    if reading.at is None:
        raise StorageUnreachable(reading.failure or f"could not read {home}", hint="holdfast jobs")
    if not console.is_terminal:
        print_table(screen(reading).renderables[1])  # type: ignore[arg-type]
        return
    from rich.live import Live

    with Live(screen(reading), console=console, screen=True, auto_refresh=False) as live:
        while not threading.Event().wait(pause):
            live.update(screen(reader.refresh()), refresh=True)


def screen(reading: HomeReading) -> "Group":
    from rich.console import Group
    from rich.text import Text

    views = [judged(seen)[0] for seen in reading.jobs.values()]
    views.sort(key=lambda view: (_WORST_FIRST[view.health], view.job))
    ill = sum(view.health != "well" for view in views)
    head = Text(f"{masked(reading.home)}   {ill} need attention, {len(views) - ill} well   ")
    head.append(_age_line(reading), "bold red" if reading.failure or reading.unreadable else "dim")
    at = reading.at
    assert at is not None
    return Group(head, jobs_table(views, at))


def _age_line(reading: HomeReading) -> str:
    if reading.failure is not None and reading.failing_since is not None:
        return f"the home is unreachable since {_clock(reading.failing_since)}: {reading.failure}"
    if reading.unreadable:
        return f"cannot be read: {', '.join(reading.unreadable)}"
    return "" if reading.at is None else f"read at {_clock(reading.at)}"


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S} UTC"
