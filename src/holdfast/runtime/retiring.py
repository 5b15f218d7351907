"""Retention, carried out by the owner: retire in the journal first, delete later, in the background, until it works."""

import logging
from collections.abc import Callable

from holdfast.checkpoint.manifest import Manifest
from holdfast.coordination.events import Event, RunFenced
from holdfast.errors import Fenced, StorageError
from holdfast.identifiers import CheckpointId, FencingEpoch
from holdfast.repository.blobs import Blobs
from holdfast.repository.entries import CheckpointsRetired
from holdfast.repository.journal import Journal, entry_key
from holdfast.repository.retention import checkpoints_to_retire, entries_to_trim, keys_of, plan_sweep
from holdfast.runtime.lanes import Lanes
from holdfast.storage.interface import ObjectStore

log = logging.getLogger("holdfast")


class Retiring:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        blobs: Blobs,
        manifests: dict[CheckpointId, Manifest],
        retained: int,
        lanes: Lanes,
        post: Callable[[Event], None],
    ) -> None:
        self._store = store
        self._journal = journal
        self._blobs = blobs
        self._manifests = manifests
        self._retained = retained
        self._lanes = lanes
        self._post = post
        self._undeleted: set[str] = set()

    def retire(self) -> None:
        self._lanes.submit("journal", self._retire)

    def sweep_earlier_runs(self) -> None:
        """Free what runs that died left behind. Objects of this run are not looked at: they may be in use."""
        if any(entry.id not in self._manifests for entry in self._journal.state.retained()):
            return  # a manifest could not be read: what it names is not known, so nothing is known to be garbage
        manifests = [item.key for item in self._store.list("manifests/")]
        self._lanes.submit("collect", lambda: self._sweep(manifests))

    def _retire(self) -> None:
        try:
            ids = checkpoints_to_retire(self._journal.state, self._retained)
            if ids:
                self._journal.append(
                    lambda sequence, attempt, at: CheckpointsRetired(
                        sequence=sequence,
                        attempt=attempt,
                        at=at,
                        fencing_epoch=self._journal.fencing_epoch,
                        ids=ids,
                    )
                )
                self._undeleted |= self._unneeded(ids)
            self._trim()
        except Fenced as error:
            self._post(RunFenced(error.message))
            return
        except StorageError as error:
            log.warning("retention is late, it will be tried after the next checkpoint: %s", error.message)
            return
        self._lanes.submit("collect", self._delete)

    def _unneeded(self, ids: tuple[CheckpointId, ...]) -> frozenset[str]:
        """Keys that only the retired checkpoints name; what `blobs` still uses is spared when it is given up."""
        state = self._journal.state
        gone: set[str] = set()
        for id in ids:
            if id in self._manifests:
                gone |= keys_of(state.completed[id], self._manifests.pop(id))
        for entry in state.retained():
            if entry.id in self._manifests:
                gone -= keys_of(entry, self._manifests[entry.id])
        return frozenset(gone)

    def _trim(self) -> None:
        trimmed = entries_to_trim(self._journal.state)
        for sequence in sorted(trimmed):
            self._store.delete(entry_key(sequence))
        if trimmed:
            self._journal.state = self._journal.state.without(trimmed)

    def _delete(self) -> None:
        keys = self._blobs.give_up(frozenset(self._undeleted))
        deleted = set()
        try:
            for key in sorted(keys):
                self._store.delete(key)
                deleted.add(key)
        except StorageError as error:
            log.warning("deletion is late, it will be tried after the next checkpoint: %s", error.message)
        self._undeleted -= deleted
        self._blobs.deleted(keys)

    def _sweep(self, manifests: list[str]) -> None:
        try:
            stored = [*manifests]
            for prefix in ("blobs/", "packs/"):
                stored += [item.key for item in self._store.list(prefix) if self._is_of_earlier_run(item.key)]
            garbage = plan_sweep(stored, self._journal.state, dict(self._manifests), self._blobs.live_keys())
        except (StorageError, KeyError) as error:
            log.warning("the look for leftovers of earlier runs failed, the next run repeats it: %s", error)
            return
        self._undeleted |= set(garbage.keys)
        self._delete()

    def _is_of_earlier_run(self, key: str) -> bool:
        epoch = key.rpartition(".")[2]
        return epoch.isdigit() and FencingEpoch(int(epoch)) < self._journal.fencing_epoch
