"""What may go: planned from the journal's state, pure. Executing it is the runtime's business."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.checkpoint.manifest import Manifest, manifest_key
from holdfast.identifiers import CheckpointId, Sequence
from holdfast.repository.entries import (
    CheckpointCompleted,
    CheckpointCorrupt,
    CheckpointRepaired,
    CheckpointsRetired,
    CheckpointStarted,
    RunEnded,
    RunStarted,
)
from holdfast.repository.state import JobState

HISTORY_KEPT = 500
"""Entries of the journal that stay for people to read, whatever they say."""


def checkpoints_to_retire(state: JobState, retained: int) -> tuple[CheckpointId, ...]:
    """Completed checkpoints beyond the newest `retained`. Savepoints stay; damaged ones do not count as kept."""
    plain = [entry.id for entry in state.retained() if entry.checkpoint_kind == "checkpoint"]
    sound = [id for id in plain if id not in state.corrupt]
    keep = set(sound[-retained:])
    oldest_kept = min(keep, default=None)
    return tuple(id for id in plain if id not in keep and (id not in state.corrupt or (oldest_kept or 0) > id))


@dataclass(frozen=True)
class Sweep:
    """Objects that no retained checkpoint names."""

    keys: tuple[str, ...]


def keys_of(entry: CheckpointCompleted, manifest: Manifest) -> frozenset[str]:
    return frozenset({manifest_key(entry.manifest), *(file.key for file in manifest.files())})


def plan_sweep(
    stored: Iterable[str], state: JobState, manifests: Mapping[CheckpointId, Manifest], live: frozenset[str]
) -> Sweep:
    """`live` are the keys that this run is using; it must have been read before `state`.

    `manifests` must hold the manifest of every retained checkpoint: what is not known to be garbage stays.
    """
    needed = set(live)
    for entry in state.retained():
        needed |= keys_of(entry, manifests[entry.id])
    return Sweep(tuple(sorted(key for key in stored if key not in needed)))


def entries_to_trim(state: JobState) -> frozenset[Sequence]:
    """Journal entries that say nothing any more.

    Never `run-started` (a stalled run must find it), the entry before one (a stalled run that wrote it may not know
    yet, and writes it again where it finds the place free), the newest entry, the highest id, or what a retained
    checkpoint needs.
    """
    keep_from = len(state.sequences) - HISTORY_KEPT
    last_of_a_run = {run.sequence - 1 for run in state.runs}
    return frozenset(
        sequence
        for index, (sequence, entry) in enumerate(state.sequences)
        if index < keep_from and sequence not in last_of_a_run and not _needed(state, entry)
    )


def _needed(state: JobState, entry: object) -> bool:
    match entry:
        case RunStarted() | RunEnded():
            return isinstance(entry, RunStarted) or entry in (state.ended, state.pipeline_ended)
        case CheckpointCompleted():
            return entry.id not in state.retired or entry.id == state.last_checkpoint
        case CheckpointStarted():
            return entry.id == state.last_checkpoint
        case CheckpointCorrupt() | CheckpointRepaired():
            return entry.id in state.completed and entry.id not in state.retired
        case CheckpointsRetired():
            return any(id in state.completed for id in entry.ids)
    return False
