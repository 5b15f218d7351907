"""Owning a job for the time of a command, with a word to the person who waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from holdfast.cli.output import messages, say
from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name
from holdfast.repository.journal import Journal
from holdfast.storage.interface import ObjectStore

if TYPE_CHECKING:
    from holdfast.runtime.launching import Surroundings
    from holdfast.runtime.maintenance import Origin


@contextmanager
def owning(
    job: str, home: str, store: ObjectStore, doing: str, on_conflict: str = "refuse", origin: "Origin | None" = None
) -> Iterator[Journal]:
    from holdfast.runtime.maintenance import maintenance

    choice = conflict_choice(on_conflict)
    with _shown() as told:
        around = _surroundings(told)
        with maintenance(job_name(job), home, store, doing, around, origin, choice) as journal:
            told("")
            yield journal


def conflict_choice(text: str) -> Literal["refuse", "takeover"]:
    if text == "takeover":
        return "takeover"
    if text == "refuse":
        return "refuse"
    raise InvalidSettings.of("on_conflict", text, "must be refuse or takeover", hint="--on-conflict takeover")


def _surroundings(told: Callable[[str], None]) -> "Surroundings":
    from holdfast.runtime.launching import Surroundings

    return replace(Surroundings.real(), told=told)


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """On a terminal one line that changes, elsewhere one line each; nothing when there is nothing to wait for."""
    console = messages()
    if not console.is_terminal:
        yield lambda text: say(text) if text else None
        return
    status = console.status("")

    def tell(text: str) -> None:
        if text:
            status.update(text)
            status.start()
        else:
            status.stop()

    try:
        yield tell
    finally:
        status.stop()
