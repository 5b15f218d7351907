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

    def sweep_earlier_runs(self, manifests: tuple[str, ...]) -> None:
        """Free what runs that died left behind. Objects of this run are not looked at: they may be in use.

        `manifests` are the keys that existed before this run claimed the job. Their names do not tell who wrote them,
        and a run that stalls here must not take the manifests of a newer one for leftovers.
        """
        if self._unreadable():
            return  # a manifest could not be read: what it names is not known, so nothing is known to be garbage
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
                self._undeleted |= self._keys_of(ids)
            self._trim()
        except Fenced as error:
            self._post(RunFenced(error.message))
            return
        except StorageError as error:
            log.warning("retention is late, it will be tried after the next checkpoint: %s", error.message)
            return
        self._lanes.submit("collect", self._delete)

    def _keys_of(self, ids: tuple[CheckpointId, ...]) -> set[str]:
        """What the retired checkpoints name."""
        completed = self._journal.state.completed
        known = [id for id in ids if id in self._manifests]
        return {key for id in known for key in keys_of(completed[id], self._manifests.pop(id))}

    def _needed(self) -> set[str]:
        """What the retained checkpoints name, as far as their manifests could be read."""
        retained = [entry for entry in self._journal.state.retained() if entry.id in self._manifests]
        return {key for entry in retained for key in keys_of(entry, self._manifests[entry.id])}

    def _trim(self) -> None:
        trimmed = entries_to_trim(self._journal.state)
        for sequence in sorted(trimmed):
            self._store.delete(entry_key(sequence))
        if trimmed:
            self._journal.state = self._journal.state.without(trimmed)

    def _delete(self) -> None:
        """Delete what is given up and not needed.

        A key may be needed again after it was retired: a later checkpoint found its bytes in the home. As long as that
        one is under way the key is live; from then on its manifest counts. So `_needed` is asked once more after
        `give_up`, when no further reference can be made.
        """
        self._undeleted -= self._needed()
        keys = self._blobs.give_up(frozenset(self._undeleted))
        wanted = keys - self._needed()
        deleted = set()
        try:
            for key in sorted(wanted):
                if self._is_safe(key):
                    self._store.delete(key)
                    deleted.add(key)
        except StorageError as error:
            log.warning("deletion is late, it will be tried after the next checkpoint: %s", error.message)
        self._undeleted -= deleted
        self._blobs.deleted(keys)

    def _is_safe(self, key: str) -> bool:
        """A manifest that could not be read may name any object of earlier runs."""
        return not self._is_of_earlier_run(key) or not self._unreadable()

    def _unreadable(self) -> bool:
        return any(entry.id not in self._manifests for entry in self._journal.state.retained())

    def _sweep(self, manifests: tuple[str, ...]) -> None:
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
