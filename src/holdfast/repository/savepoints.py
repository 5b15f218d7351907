"""Names an existing checkpoint, and removes a name. Called by the owner: the running job, or a command that has claimed
a job that is not running. Both are idempotent."""

from holdfast.errors import Corrupt, InvalidSettings, NotFound
from holdfast.identifiers import CheckpointId, savepoint_name
from holdfast.repository.entries import CheckpointCompleted, SavepointDeleted, SavepointNamed
from holdfast.repository.journal import Journal
from holdfast.repository.state import JobState


def name_checkpoint(journal: Journal, id: CheckpointId, name: str) -> CheckpointCompleted:
    """Make the checkpoint a savepoint. From then on retention keeps it."""
    journal.settle()
    entry = to_be_named(journal.state, id, name)
    if entry.name != name:
        journal.append(lambda stamp: SavepointNamed(**stamp, id=id, name=name))
    return journal.state.completed[id]


def to_be_named(state: JobState, id: CheckpointId, name: str) -> CheckpointCompleted:
    """The checkpoint, if it can have the name."""
    savepoint_name(name)
    holder = state.savepoint(name)
    if holder is not None and holder.id != id:
        raise name_taken(name, holder)
    entry = state.completed.get(id)
    if entry is None or id in state.retired:
        kept = ", ".join(str(entry.id) for entry in reversed(state.retained()))
        raise NotFound(
            f"could not make checkpoint {id} savepoint {name!r}: it is not kept",
            hint=f"one of: {kept}" if kept else None,
        )
    if entry.name is not None and entry.name != name:
        raise InvalidSettings(
            f"could not make checkpoint {id} savepoint {name!r}: it is savepoint {entry.name!r} already",
            hint=f"use that name, or take it back first: holdfast savepoint delete {entry.name}",
        )
    if id in state.corrupt:
        raise Corrupt(
            f"could not make checkpoint {id} savepoint {name!r}: it is damaged: {state.corrupt[id].detail}",
            hint="choose another one: holdfast checkpoints",
        )
    return entry


def delete_savepoint(journal: Journal, name: str) -> CheckpointCompleted:
    """It becomes an ordinary checkpoint, which retention may retire."""
    journal.settle()
    entry = to_be_deleted(journal.state, name)
    journal.append(lambda stamp: SavepointDeleted(**stamp, id=entry.id, name=name))
    return journal.state.completed[entry.id]


def to_be_deleted(state: JobState, name: str) -> CheckpointCompleted:
    savepoint_name(name)
    entry = state.savepoint(name)
    if entry is None:
        known = ", ".join(str(entry.name) for entry in reversed(state.retained()) if entry.name)
        raise NotFound(
            f"could not delete savepoint {name!r}: there is none", hint=f"one of: {known}" if known else "nothing to do"
        )
    return entry


def name_taken(name: str, holder: CheckpointCompleted) -> InvalidSettings:
    return InvalidSettings(
        f"could not make savepoint {name!r}: checkpoint {holder.id} has that name", hint="choose another name"
    )
