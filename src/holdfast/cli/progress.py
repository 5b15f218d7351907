"""Progress on a terminal, and only there: a bar in bytes, or what is being waited for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.cli.output import messages


@contextmanager
def byte_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function that takes the number of further bytes done. Any thread may call it."""
    console = messages()
    if not console.is_terminal:
        yield lambda count: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def count_progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """The same for a number of things."""
    console = messages()
    if not console.is_terminal:
        yield lambda count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def waiting(title: str) -> Iterator[Callable[[str], None]]:
    """A function that sets the text of what is being waited for."""
    console = messages()
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status(title) as status:
        yield status.update
