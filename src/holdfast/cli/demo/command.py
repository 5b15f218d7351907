"""`holdfast demo`: the product in one command."""

import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.dashboard.command import serving
from holdfast.cli.dashboard.guard import Guard
from holdfast.cli.demo.places import JOB, Places, make_places
from holdfast.cli.output import print_message
from holdfast.cli.requirements import require_java_and_packages

if TYPE_CHECKING:
    from holdfast.cli.demo.screen import Screen

_LOOKED_AT_S = 1.0
"""How often the page reads the demo's home: an outage of a few seconds is to be seen."""

Directory = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="DIR", show_default=False, help="The directory to use. Default: a new temporary one."
    ),
]


Page = Annotated[bool, typer.Option("--dashboard", help="Serve the web page of the demo, also after its end.")]


Alone = Annotated[bool, typer.Option("--alone", help="Do not run the same query under plain Spark for comparison.")]


def demo(directory: Directory = None, dashboard: Page = False, alone: Alone = False) -> int:
    """Watch a pipeline survive production failures.

    A real pipeline, in a few minutes, and beside it the same query under plain Spark: drivers are killed, a disk and
    the checkpoint store are removed, a query with a mistake is deployed and rolled back, and both tables are checked
    row by row all the time. Needs Java and no server, and leaves its files for inspection.
    """
    require_java_and_packages("start the demo", {"pyspark": "spark", "deltalake": "delta", "pyarrow": "delta"})
    from holdfast.cli.demo.screen import Screen

    places, screen = make_places(directory), Screen(time.monotonic)
    if not dashboard:
        return _shown(places, screen, alone=alone)
    guard = Guard(frozenset())
    with serving(places.home_url, 0, "127.0.0.1", guard, looked_at_s=_LOOKED_AT_S, board=screen.board) as port:
        print_message(f"the page is at http://127.0.0.1:{port}/")
        code = _shown(places, screen, alone=alone)
        if sys.stdout.isatty():
            print_message(f"the page stays at http://127.0.0.1:{port}/ until Ctrl-C")
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
        return code


def _shown(places: Places, screen: "Screen", *, alone: bool) -> int:
    # Imported only now: the message that Java is missing does not need these.
    from holdfast.cli.demo.acts import all_held, play
    from holdfast.cli.demo.show import Show

    began = time.monotonic()
    with screen:
        screen.title("holdfast demo", {"files": places.root, "pipeline": places.pipeline, "Spark's log": places.log})
        show = Show(places, screen, alone=alone)
        try:
            with _ended_by_signals():
                outcomes = play(show)
        except BaseException:
            print_message(f"stopped; its files are in {places.root}")
            raise
        finally:
            show.close()
            shutil.rmtree(places.scratch, ignore_errors=True)
        screen.summary([(outcome.held, outcome.what, outcome.result) for outcome in outcomes])
        if show.plain is not None:
            screen.print_line(f"Plain Spark beside it: {show.plain_score}; its query died {show.plain.deaths} times.")
        exact = all_held(outcomes)
        verdict = "Everything held." if exact else "Something did not hold."
        screen.print_line(f"{verdict} {time.monotonic() - began:.0f} s.", "bold green" if exact else "bold red")
        screen.print_line("Look around:")
        for command in _where_to_look(places):
            screen.print_unwrapped(f"  {command}")
    return 0 if exact else 1


def _where_to_look(places: Places) -> Iterator[str]:
    for command in ("checkpoints", "status", "verify --all"):
        yield f"{_program()} {command} --home {places.home} --job {JOB}"


def _program() -> str:
    """The command as the user can type it: `make demo` calls one that is not on the PATH."""
    invoked, found = Path(sys.argv[0]).absolute(), shutil.which("holdfast")
    if invoked.name != "holdfast" or (found and Path(found).resolve() == invoked.resolve()):
        return "holdfast"
    return str(invoked.relative_to(Path.cwd()) if invoked.is_relative_to(Path.cwd()) else invoked)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A closed terminal or a SIGTERM ends the demo and its processes, as Ctrl-C does."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    previous = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
