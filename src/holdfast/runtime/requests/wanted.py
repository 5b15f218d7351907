"""Requests of a user or a program to a run's loop, with their answers."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.commands import AnswerRequest
from holdfast.coordination.events import Kind

Answer = Callable[[AnswerRequest], None]


@dataclass(frozen=True)
class CheckpointWanted:
    """A checkpoint that includes every batch committed before the request."""

    kind: Kind
    name: str | None
    answer: Answer


@dataclass(frozen=True)
class StopWanted:
    """Stop the query, checkpoint what it committed, end the run. `answer` is called early enough for an entry before
    the end of the run is recorded."""

    savepoint: str | None
    answer: Answer
