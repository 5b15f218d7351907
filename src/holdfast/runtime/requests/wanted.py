"""What a person or a program wants of a run: said to its loop, and answered."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.coordination.commands import AnswerRequest
from holdfast.coordination.events import Kind

Answer = Callable[[AnswerRequest], None]


@dataclass(frozen=True)
class CheckpointWanted:
    """One that holds every batch which was committed before."""

    kind: Kind
    name: str | None
    answer: Answer


@dataclass(frozen=True)
class StopWanted:
    """Stop the query, checkpoint what it committed, end the run. `answer` comes early enough for an entry before the
    run records its end."""

    savepoint: str | None
    answer: Answer
