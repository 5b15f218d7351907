"""Decides to which checkpoint a job goes back on request: that of a start, or that of `holdfast rollback` before it.

A supervisor restarts a process with the same arguments each time. So a request of a start that the journal records as
done is not repeated, whatever `holdfast rollback` asked for since: that is carried out, or the job continues from its
newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.errors import Corrupt, InvalidSettings, NotFound
from holdfast.identifiers import CheckpointId, JobName
from holdfast.repository.entries import ROLLBACK, CheckpointCompleted, RollbackRequested
from holdfast.repository.journal import Journal
from holdfast.repository.state import JobState


@dataclass(frozen=True)
class Wanted:
    """The point to go back to. At most one of the two is set."""

    savepoint: str | None = None
    checkpoint: int | None = None

    def __bool__(self) -> bool:
        return self.savepoint is not None or self.checkpoint is not None

    def __str__(self) -> str:
        return f"savepoint {self.savepoint}" if self.savepoint is not None else f"checkpoint {self.checkpoint}"

    @property
    def option(self) -> str:
        """Of `holdfast run`."""
        return f"--from-{self}"


@dataclass(frozen=True)
class GoBack:
    to: CheckpointCompleted
    asked: str


@dataclass(frozen=True)
class AlreadyBack:
    """The request is already done; the job has continued since."""

    to: CheckpointId


def decide(state: JobState, wanted: Wanted) -> GoBack | AlreadyBack | None:
    """None when nothing was requested, by `wanted` or by a rollback. Raises `NotFound`, `Corrupt` or `InvalidSettings`
    when the job cannot go there."""
    done = _done(state, wanted)
    if wanted and done is None:
        return GoBack(reachable(state, wanted), str(wanted))
    if state.rollback is not None:
        rollback = state.rollback
        return GoBack(reachable(state, Wanted(checkpoint=rollback.chosen)), f"{ROLLBACK}{rollback.sequence}")
    return done


def _done(state: JobState, wanted: Wanted) -> AlreadyBack | None:
    entry, back = _find(state, wanted), state.went_back_for_a_start
    if back is not None and back.asked == str(wanted) and (entry is None or entry.id == back.chosen):
        return AlreadyBack(back.chosen)
    return None


def reachable(state: JobState, wanted: Wanted) -> CheckpointCompleted:
    """The checkpoint, as far as the journal alone can tell. Raises when the job cannot go there."""
    entry = _find(state, wanted)
    if entry is None:
        raise NotFound(f"could not go back to {wanted}: it does not exist, or is no longer kept", hint=_usable(state))
    if entry.id in state.abandoned:
        raise InvalidSettings(
            f"could not go back to {wanted}: it belongs to a history that was abandoned when the job went back before "
            f"it, and the output of that history is gone",
            hint="holdfast restore writes its state to a directory, for another job to start from",
        )
    if entry.id in state.corrupt:
        damage = state.corrupt[entry.id].detail
        raise Corrupt(f"could not go back to {wanted}: it is damaged: {damage}", hint=_usable(state))
    return entry


@contextmanager
def naming_the_request(job: JobName, read: Callable[[], JobState], wanted: Wanted) -> Iterator[None]:
    """A refusal of a start that goes back says how to resume where the job was, which may be all that can be done."""
    try:
        yield
    except (InvalidSettings, NotFound, Corrupt) as error:
        if back := _instead_of_going_back(job, read(), wanted):
            error.hint = f"{error.hint}. {back}" if error.hint else back
        raise


def _instead_of_going_back(job: JobName, state: JobState, wanted: Wanted) -> str:
    """ "" when the start does not go back."""
    if wanted and _done(state, wanted) is None:
        return f"To resume where the job was: start it without {wanted.option}"
    if state.rollback is not None:
        return f"holdfast rollback asked to go back; to resume where the job was: holdfast rollback {job} --cancel"
    return ""


def request_rollback(journal: Journal, chosen: CheckpointId | None) -> None:
    """The next start goes back there; None cancels that."""
    journal.append(lambda stamp: RollbackRequested(**stamp, chosen=chosen))


def abandoned_by(state: JobState, chosen: CheckpointCompleted) -> tuple[CheckpointId, ...]:
    """Checkpoints after `chosen` on the job's current timeline."""
    return tuple(
        entry.id
        for entry in state.retained()
        if entry.id > chosen.id and entry.barrier_batch_id > chosen.barrier_batch_id and entry.id not in state.abandoned
    )


def _find(state: JobState, wanted: Wanted) -> CheckpointCompleted | None:
    if wanted.savepoint is not None:
        return state.savepoint(wanted.savepoint)
    return next((entry for entry in state.retained() if entry.id == wanted.checkpoint), None)


def _usable(state: JobState) -> str:
    shown = [f"{entry.id} ({entry.name})" if entry.name else str(entry.id) for entry in state.restorable()]
    return f"one of: {', '.join(shown)}" if shown else "holdfast checkpoints, to see what became of it"
