"""Copies a job, or one checkpoint of it, to another home.

The copy is the same job: same lineage, same ids, same keys. Its journal continues above the source's sequence numbers,
so a run of the copy has a higher fencing epoch than any run of the source, and anything that both write to (above all a
sink) accepts the newer one. The copy depends on nothing in the source.

It also contains the source's decisions (`repository/replay.py`), so it resumes where the source would.

The command owns the target while it writes, like any other maintenance. A checkpoint exists in the target when, and
only when, the target's journal has it, which is after all of its objects were copied. So an interrupted copy is
shorter, never broken.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import msgspec

from holdfast.errors import Corrupt, InvalidSettings
from holdfast.identifiers import CheckpointId, JobName
from holdfast.plans.log import copy_plans, plan_batches
from holdfast.repository.damage import mark_repaired
from holdfast.repository.entries import AnyEntry, CheckpointCompleted, CheckpointsRetired
from holdfast.repository.journal import Journal, read_entries
from holdfast.repository.lines import line_folder
from holdfast.repository.replay import as_copied, decision_text, missing, taken_id, to_retire, to_unname
from holdfast.repository.savepoints import delete_savepoint
from holdfast.repository.state import JobState
from holdfast.repository.transfer import Load, Progress, Transfer
from holdfast.runtime.commands.maintenance import Origin, maintenance
from holdfast.runtime.recovery.memory import showed_batches
from holdfast.runtime.run.environment import Environment
from holdfast.storage.interface import ObjectStore


@dataclass(frozen=True)
class JobHome:
    """A job in a home."""

    job: JobName
    home: str
    store: ObjectStore

    def __str__(self) -> str:
        return f"job {self.job!r} of {self.home}"

    def state(self) -> JobState:
        return JobState.of(read_entries(self.store))


@dataclass
class Copied:
    checkpoints: list[CheckpointId] = field(default_factory=list)
    """Checkpoints that the target did not have."""
    present: list[CheckpointId] = field(default_factory=list)
    """Checkpoints that it had."""
    repaired: list[CheckpointId] = field(default_factory=list)
    """Checkpoints that were damaged in the target and are repaired now."""
    objects: int = 0
    bytes: int = 0
    retired: list[CheckpointId] = field(default_factory=list)
    """Abandoned at the target, because the source abandoned them."""
    decisions: list[str] = field(default_factory=list)
    """Decisions of the source that the target did not have."""
    vanished: list[CheckpointId] = field(default_factory=list)
    """Retired at the source during the copy."""
    damaged: dict[CheckpointId, str] = field(default_factory=dict)


def require_possible(source: JobHome, target: JobHome, source_state: JobState, target_state: JobState) -> None:
    """Refuse a target that is not a pure copy of the source."""
    if source.store.url == target.store.url:
        raise InvalidSettings(f"could not copy {source} onto itself", hint="--to another home, or --as another name")
    pipeline = target_state.pipeline
    another = f"could not copy {source} to {target}: "
    hint = "--as NAME copies to a new job"
    if target_state.runs and target_state.lineage != source_state.lineage:
        run = pipeline or target_state.runs[-1]
        raise InvalidSettings(f"{another}it is another job, last owned by host {run.host}, pid {run.pid}", hint=hint)
    if pipeline is not None:
        raise InvalidSettings(
            f"{another}it has run on its own since it was copied, on host {pipeline.host}, pid {pipeline.pid}",
            hint=hint,
        )


def planned(source: JobHome, target: JobHome, entries: list[CheckpointCompleted], *, whole: bool) -> Copied:
    """What a copy would do. Writes nothing."""
    source_state, target_state = source.state(), target.state()
    require_possible(source, target, source_state, target_state)
    transfer = Transfer(source.store, target.store)
    steps = missing(source_state, target_state, {entry.id for entry in entries}, whole=whole)
    copied = Copied(decisions=[decision for step in steps if (decision := decision_text(step)) is not None])
    counted: set[str] = set()
    for entry in entries:
        if entry.id in target_state.completed:
            copied.present.append(entry.id)
            continue
        new = [stored for stored in transfer.load(entry).missing if stored.key not in counted]
        counted |= {stored.key for stored in new}
        copied.checkpoints.append(entry.id)
        copied.objects += len(new)
        copied.bytes += sum(stored.size for stored in new)
    return copied


class Copy:
    def __init__(
        self,
        source: JobHome,
        target: JobHome,
        progress: Callable[[Load], AbstractContextManager[Progress]],
        around: Environment | None = None,
    ) -> None:
        """`progress` is called for each checkpoint that is sent."""
        self._around = around
        self._source = source
        self._target = target
        self._progress = progress

    def run(self, entries: list[CheckpointCompleted], *, whole: bool) -> Copied:
        """Copy these checkpoints and the source's decisions, in its order; with `whole`, also savepoint names, the
        history, retirements and retention.

        What the target already has is not sent again. Raises `OwnedByAnotherRun` when another run owns the target,
        `Fenced` when one takes it over. Damage and retirement at the source are reported and do not stop the rest.
        """
        state, there = self._source.state(), self._target.state()
        require_possible(self._source, self._target, state, there)
        if _is_up_to_date(entries, state, there, whole=whole) and not self._lacks_plans(state, there):
            return Copied(present=[entry.id for entry in entries])
        assert state.lineage is not None
        origin = Origin(state.lineage, state.head, state.retention if whole else None, showed_batches(state))
        with self._own(origin) as journal:
            require_possible(self._source, self._target, state, journal.state)
            transfer = Transfer(self._source.store, self._target.store)
            copied = Copied()
            present = [entry for entry in entries if entry.id in journal.state.completed]
            for entry in present:
                self._repair(journal, transfer, entry, copied)
            for item in missing(state, journal.state, {entry.id for entry in entries}, whole=whole):
                self._replay(journal, transfer, item, copied)
            for taken in taken_id(state, journal.state, []):
                _append(journal, taken)
            after = self._source.state()
            for gone in to_unname(after, journal.state) if whole else ():
                assert gone.name is not None
                delete_savepoint(journal, gone.name)
                copied.decisions.append(f"deleted savepoint {gone.name!r}")
            _retire(journal, to_retire(after, journal.state, whole=whole), copied)
            folders = line_folder(after), line_folder(journal.state)
            copy_plans(self._source.store, folders[0], self._target.store, folders[1])
        return copied

    def _lacks_plans(self, state: JobState, there: JobState) -> bool:
        planned = plan_batches(self._source.store, line_folder(state))
        return not planned <= plan_batches(self._target.store, line_folder(there))

    def _own(self, origin: Origin) -> AbstractContextManager[Journal]:
        target = self._target
        return maintenance(target.job, target.home, target.store, "copy to", self._around, origin)

    def _replay(self, journal: Journal, transfer: Transfer, entry: AnyEntry, copied: Copied) -> None:
        if isinstance(entry, CheckpointCompleted):
            if not self._send(transfer, entry, copied):
                return
            copied.checkpoints.append(entry.id)
        elif (decision := decision_text(entry)) is not None:
            copied.decisions.append(decision)
        _append(journal, as_copied(entry))

    def _repair(self, journal: Journal, transfer: Transfer, entry: CheckpointCompleted, copied: Copied) -> None:
        if entry.id not in _repairable(journal.state):
            copied.present.append(entry.id)
        elif self._send(transfer, entry, copied, again=True):
            mark_repaired(journal, entry.id, "every byte was verified against the source of the copy")
            copied.repaired.append(entry.id)

    def _send(self, transfer: Transfer, entry: CheckpointCompleted, copied: Copied, *, again: bool = False) -> bool:
        """Whether the target now has every byte of it."""
        try:
            if again:
                transfer.recheck(entry)
            load = transfer.load(entry)
            with self._progress(load) as advance:
                transfer.send(load, advance)
        except Corrupt as error:
            if entry.id not in {kept.id for kept in self._source.state().retained()}:
                copied.vanished.append(entry.id)
            else:
                copied.damaged[entry.id] = error.message
            return False
        copied.objects += len(load.missing)
        copied.bytes += load.bytes
        return True


def _is_up_to_date(entries: list[CheckpointCompleted], source: JobState, target: JobState, *, whole: bool) -> bool:
    """A run of the target must also have a higher epoch than the source's newest run: a sink may have recorded that
    one."""
    ids = {entry.id for entry in entries}
    if source.fencing_epoch > target.head or ids & _repairable(target):
        return False
    if whole and (to_unname(source, target) or source.retention != target.retention):
        return False
    return not to_retire(source, target, whole=whole) and not missing(source, target, ids, whole=whole)


def _repairable(target: JobState) -> frozenset[CheckpointId]:
    """Damaged in the copy, and not abandoned."""
    return frozenset(id for id in target.corrupt if id not in target.passed_over and id not in target.retired)


def _retire(journal: Journal, ids: tuple[CheckpointId, ...], copied: Copied) -> None:
    if ids:
        journal.append(lambda stamp: CheckpointsRetired(**stamp, ids=ids))
        copied.retired.extend(ids)


def _append(journal: Journal, entry: AnyEntry) -> None:
    """Appends the entry unchanged to another journal. `at` stays: the time when it happened."""
    journal.append(lambda stamp: msgspec.structs.replace(entry, **{**stamp, "at": entry.at}))
