"""`holdfast events`: what happened to a job, in order, as far as its journal still holds it."""

import threading
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from holdfast.cli import figures
from holdfast.cli.happenings import Happening, happenings
from holdfast.cli.observing import job_store
from holdfast.cli.options import AsJson, Home, Job, JobArgument
from holdfast.cli.output import answer, documents_as_lines, print_json, write_json_line
from holdfast.cli.reference import one_job
from holdfast.identifiers import Sequence
from holdfast.repository.journal import read_entries, read_entries_after
from holdfast.repository.state import JobState
from holdfast.settings import seconds
from holdfast.storage.interface import ObjectStore

_SHOWN = 50

Limit = Annotated[int, typer.Option("--limit", min=1, metavar="N", help="The newest N.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with what happens next, until Ctrl-C.")]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="With --follow: how often to look.")]


def events(
    home: Home,
    name: JobArgument = None,
    job: Job = None,
    limit: Limit = _SHOWN,
    follow: Follow = False,
    every: Every = "2s",
    as_json: AsJson = False,
) -> None:
    """Show what happened to a job, oldest first."""
    job = one_job(name, job)
    pause = seconds("every", every, least=0.1)
    if follow and as_json:
        documents_as_lines()
    store = job_store(home, job)
    state = JobState.of(read_entries(store))
    newest = happenings(state)[-limit:]
    if as_json and not follow:
        print_json({"job": job, "home": home, "events": [each.document() for each in newest]})
        return
    show = (lambda each: write_json_line({"job": job, **each.document()})) if as_json else _print
    for each in newest:
        show(each)
    if follow:
        for each in following(store, state.head, lambda: bool(threading.Event().wait(pause))):
            show(each)


def following(store: ObjectStore, after: Sequence, over: Callable[[], bool]) -> Iterator[Happening]:
    """What happens after this entry. `over` waits between two looks, and says whether to end."""
    while not over():
        for entry in read_entries_after(store, after):
            after = entry.sequence
            yield from happenings(JobState(sequences=[(entry.sequence, entry)]))


def _print(each: Happening) -> None:
    from rich.text import Text

    line = Text(f"{figures.moment(each.at)}  ", "dim").append(each.text, "red" if each.bad else "default")
    answer().print(line, soft_wrap=True)
