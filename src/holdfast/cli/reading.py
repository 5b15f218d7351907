"""What every command that shows something has: `-o json|wide`, and `--watch` to show it again and again."""

import functools
import inspect
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from holdfast.cli.output import answer, print_message, wide_output
from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.settings import seconds

Command = Callable[..., None]

_FORMS = ("json", "wide")
_OWN_OUTPUT = "doctor"
"""Its `-o` names a file."""
_CLEARED = "\x1b[H\x1b[2J"


def _form(text: str) -> str:
    if text not in _FORMS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(_FORMS)}")
    return text


Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="json|wide",
        show_default=False,
        parser=_form,
        autocompletion=lambda: list(_FORMS),
        help="json: as --json. wide: every column, not cut to the terminal.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="With --watch: how often.")]


def answering(command: Command) -> Command:
    """`command` with `-o`."""

    @functools.wraps(command)
    def wrapped(*, output: str | None, as_json: bool, **arguments: Any) -> None:
        with wide_output() if output == "wide" else nullcontext():
            command(as_json=as_json or output == "json", **arguments)

    return _with(wrapped, command, output=(Output, None))


def watching(command: Command) -> Command:
    """`command` with `-o` and `--watch`."""
    shown = answering(command)

    @functools.wraps(command)
    def wrapped(*, watch: bool, every: str, **arguments: Any) -> None:
        if not watch:
            shown(**arguments)
            return
        pause = seconds("every", every, least=0.1)
        if arguments["as_json"] or arguments["output"] == "json":
            raise InvalidSettings("--watch and --json exclude each other: --json is one document", hint="one of them")
        show_again(lambda: shown(**arguments), lambda: threading.Event().wait(pause))

    return _with(wrapped, shown, watch=(Watch, False), every=(Every, "2s"))


def show_again(show: Callable[[], None], over: Callable[[], bool]) -> None:
    """Until `over`, which waits. What cannot be shown the first time is an error; later it may pass."""
    show()
    while not over():
        _begin_anew()
        try:
            show()
        except HoldfastError as error:
            print_message(f"holdfast: {error.message}")


def _begin_anew() -> None:
    """Clears a terminal; elsewhere a line says when."""
    if answer().is_terminal:
        sys.stdout.write(_CLEARED)
    else:
        sys.stdout.write(f"\n{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}\n")
    sys.stdout.flush()


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command line asks for a JSON document, however it is spelled."""
    words = list(arguments)
    words = words[: words.index("--") if "--" in words else None]
    if "--json" in words:
        return True
    forms = {*itertools.pairwise(words)} & {("-o", "json"), ("--output", "json")}
    return _OWN_OUTPUT not in words and bool(forms or {"-ojson", "--output=json"} & {*words})


def _with(wrapped: Command, command: Command, **added: tuple[Any, object]) -> Command:
    """Typer reads the options from the signature."""
    signature = inspect.signature(command)
    keyword: Literal[inspect._ParameterKind.KEYWORD_ONLY] = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(each.replace(kind=keyword) for each in signature.parameters.values()),
        *(
            inspect.Parameter(name, keyword, default=default, annotation=annotation)
            for name, (annotation, default) in added.items()
        ),
    ]
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapped
