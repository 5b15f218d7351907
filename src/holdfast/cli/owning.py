"""Owns a job for the time of a command, and tells the user what it waits for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from holdfast.cli.output import print_message
from holdfast.errors import InvalidSettings
from holdfast.identifiers import job_name
from holdfast.repository.journal import Journal
from holdfast.storage.interface import ObjectStore

if TYPE_CHECKING:
    from holdfast.runtime.run.environment import Environment


@contextmanager
def owning(job: str, home: str, store: ObjectStore, doing: str, on_conflict: str = "refuse") -> Iterator[Journal]:
    from holdfast.runtime.commands.maintenance import maintenance

    choice = conflict_choice(on_conflict)
    with maintenance(job_name(job), home, store, doing, reporting_environment(), on_conflict=choice) as journal:
        yield journal


def reporting_environment() -> "Environment":
    """Environment of a command that prints what it waits for."""
    from holdfast.runtime.run.environment import Environment

    return replace(Environment.real(), report=print_message)


def conflict_choice(text: str) -> Literal["refuse", "takeover"]:
    if text == "takeover":
        return "takeover"
    if text == "refuse":
        return "refuse"
    raise InvalidSettings.of("on_conflict", text, "must be refuse or takeover", hint="--on-conflict takeover")
