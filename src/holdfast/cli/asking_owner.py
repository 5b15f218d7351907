"""Sends a request to a running job, and shows progress while it waits for the answer."""

import time
import uuid
from collections.abc import Callable

from holdfast.cli.progress import waiting
from holdfast.errors import CheckpointFailed, Corrupt, HoldfastError, InvalidSettings, NotFound
from holdfast.identifiers import CheckpointId, JobName
from holdfast.repository.entries import AnyEntry, CheckpointStarted, Failure, RequestAnswered
from holdfast.repository.mailbox import RequestKind
from holdfast.repository.ownership import current_process
from holdfast.repository.views import Observation
from holdfast.runtime.clock import SystemClock
from holdfast.runtime.requests.asking import Asker, ask
from holdfast.storage.interface import ObjectStore

_ERRORS: dict[str, type[HoldfastError]] = {
    "name_taken": InvalidSettings,
    "InvalidSettings": InvalidSettings,
    "NotFound": NotFound,
    "Corrupt": Corrupt,
}


def ask_owner(
    store: ObjectStore,
    seen: Observation,
    kind: RequestKind,
    name: str | None,
    timeout: float,
    doing: str,
    checkpoint: CheckpointId | None = None,
) -> CheckpointId:
    """The checkpoint that was made. Raises the owner's failure as the command's."""
    answered = _asked(store, seen, kind, timeout, doing, name, checkpoint)
    if answered.checkpoint is None:
        raise CheckpointFailed(f"could not {doing} of job {seen.job!r}: the run ended without it")
    return answered.checkpoint


def ask_for_checkpoint(store: ObjectStore, seen: Observation, timeout: float) -> CheckpointId:
    return ask_owner(store, seen, "checkpoint", None, timeout, "take a checkpoint")


def ask_to_stop(store: ObjectStore, seen: Observation, timeout: float) -> None:
    """Returns when the run has stopped, its last checkpoint included."""
    _asked(store, seen, "stop", timeout, "stop")


def ask_to_collect(store: ObjectStore, seen: Observation, timeout: float) -> str:
    """The owner's answer."""
    return _asked(store, seen, "collect", timeout, "delete what is not needed").message


def _asked(
    store: ObjectStore,
    seen: Observation,
    kind: RequestKind,
    timeout: float,
    doing: str,
    name: str | None = None,
    checkpoint: CheckpointId | None = None,
) -> RequestAnswered:
    run = seen.state.run
    assert run is not None
    with waiting(f"waiting for run {run.fencing_epoch} on {run.host} to {doing}") as show_status:

        def on_entry(entry: AnyEntry) -> None:
            if isinstance(entry, CheckpointStarted) and kind != "collect" and entry.name == name:
                show_status(f"checkpoint {entry.id} of batch {entry.barrier_batch_id} is in progress")

        return request_of_owner(store, seen, kind, timeout, doing, name=name, checkpoint=checkpoint, on_entry=on_entry)


def request_of_owner(
    store: ObjectStore,
    seen: Observation,
    kind: RequestKind,
    timeout: float,
    doing: str,
    *,
    name: str | None = None,
    checkpoint: CheckpointId | None = None,
    on_entry: Callable[[AnyEntry], None] = lambda entry: None,
) -> RequestAnswered:
    """The same without a terminal. Raises the owner's failure."""
    asker = Asker(SystemClock(), time.sleep, current_process(), lambda: uuid.uuid4().hex, on_entry)
    answered = ask(
        JobName(seen.job), store, seen.state, kind, name=name, checkpoint=checkpoint, timeout=timeout, asker=asker
    )
    if answered.failure is not None:
        raise _error(answered.failure, f"could not {doing} of job {seen.job!r} in {seen.home}")
    return answered


def _error(failure: Failure, attempted: str) -> HoldfastError:
    kind = _ERRORS.get(failure.reason, CheckpointFailed)
    if failure.message.startswith("could not"):
        return kind(failure.message, hint=failure.hint or None)
    reason = "" if kind is not CheckpointFailed else f"{failure.reason}: "
    return kind(f"{attempted}: {reason}{failure.message}", hint=failure.hint or None)
