"""Which checkpoint a command means. Pure."""

from holdfast.errors import InvalidSettings, NotFound
from holdfast.identifiers import CheckpointId, savepoint_name
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.views import Observation, checkpoint_detail


def no_such_checkpoint(seen: Observation, id: int) -> NotFound:
    newest = seen.state.last_checkpoint
    known = f"its newest is {newest}" if newest else "it has none yet"
    return NotFound(
        f"could not find checkpoint {id} of job {seen.job!r} in {seen.home}: {known}",
        hint=f"holdfast checkpoints --home {seen.home} --job {seen.job}",
    )


def named_checkpoint(seen: Observation, id: int) -> CheckpointCompleted:
    """The completed checkpoint with this id; `NotFound` gives its status when its bytes are gone."""
    entry = seen.state.completed.get(CheckpointId(id))
    if entry is not None and entry.id not in seen.state.retired:
        return entry
    document = checkpoint_detail(seen, id)
    if document is None:
        raise no_such_checkpoint(seen, id)
    why = document.status.replace("_", " ") + (f" ({document.failure.reason})" if document.failure else "")
    raise NotFound(
        f"could not use checkpoint {id} of job {seen.job!r} in {seen.home}: it is {why}", hint=_usable_hint(seen)
    )


def named_savepoint(seen: Observation, name: str) -> CheckpointCompleted:
    savepoint_name(name)
    savepoints = [e for e in reversed(seen.state.retained()) if e.checkpoint_kind == "savepoint"]
    for entry in savepoints:
        if entry.name == name:
            return entry
    known = f"one of: {', '.join(str(entry.name) for entry in savepoints)}" if savepoints else _usable_hint(seen)
    raise NotFound(f"could not find savepoint {name!r} of job {seen.job!r} in {seen.home}", hint=known)


def to_restore(seen: Observation, checkpoint: int | None, savepoint: str | None) -> CheckpointCompleted:
    """The requested checkpoint, else the newest that recovery would choose."""
    if checkpoint is not None and savepoint is not None:
        raise InvalidSettings("--checkpoint and --savepoint exclude each other", hint="give one of them")
    if checkpoint is not None:
        return named_checkpoint(seen, checkpoint)
    if savepoint is not None:
        return named_savepoint(seen, savepoint)
    restorable = seen.state.restorable()
    if not restorable:
        raise _none_completed(seen)
    return restorable[0]


def to_verify(seen: Observation, checkpoint: int | None, everything: bool) -> list[CheckpointCompleted]:
    """The requested checkpoint, else the newest retained one, even if it is known to be damaged."""
    if checkpoint is not None and everything:
        raise InvalidSettings("--checkpoint and --all exclude each other", hint="give one of them")
    if checkpoint is not None:
        return [named_checkpoint(seen, checkpoint)]
    retained = list(reversed(seen.state.retained()))
    if not retained:
        raise _none_completed(seen)
    return retained if everything else retained[:1]


def _none_completed(seen: Observation) -> NotFound:
    return NotFound(
        f"could not find a usable checkpoint of job {seen.job!r} in {seen.home}: none is completed and retained",
        hint=f"holdfast checkpoints --home {seen.home} --job {seen.job}",
    )


def _usable_hint(seen: Observation) -> str:
    ids = [str(entry.id) for entry in seen.state.restorable()]
    return f"one of: {', '.join(ids)}" if ids else f"holdfast checkpoints --home {seen.home} --job {seen.job}"
