"""Deletes objects that are no longer needed, in the background.

All of it happens on the lane `collect`, a slice at a time: no checkpoint waits for it, and the loop only checks now and
then whether a slice is due (`poll`). A failed deletion is retried after a growing pause, and one key that
cannot be deleted does not block the others.

Invariants
- A key is deleted only after the journal retired every checkpoint that names it, more than the grace ago, or when
  none ever did; and not while this run is using it (`Blobs.reserve_for_deletion`).
- Of what other runs may have written only keys of earlier epochs are deleted, and manifests that existed before this
  run claimed the job: a run that stalls here can harm no newer one.
- Journal entries are deleted in ascending order, and only those that an official fold replaces.
- Nothing is deleted in a home that does not hold this run's newest entry: in one restored from a copy, other
  checkpoints may need it. That is proved before each deletion, unless it was a second ago (`FreshProof`).
"""

import math
from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from holdfast.checkpoint.manifest import manifest_key
from holdfast.errors import Fenced, OutcomeUnknown, StorageError
from holdfast.job_log import log
from holdfast.repository.absence import absent_among, proven_absent
from holdfast.repository.blobs import Blobs
from holdfast.repository.collection import is_of_earlier_run, sparse_packs, stale_temporaries
from holdfast.repository.deletion_queue import DeletionQueue, objects_first
from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.folding import clear_folded, guard_of
from holdfast.repository.fresh_proof import FreshProof
from holdfast.repository.inventory import NamedKeys, keys_in
from holdfast.repository.journal import Journal
from holdfast.repository.lines import unneeded_plans
from holdfast.repository.reserve import keep_reserve
from holdfast.repository.retention import in_grace, keys_of
from holdfast.repository.survey import listed_objects, listed_plans, retired_keys
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes, Work
from holdfast.storage.interface import ObjectStore

SLICE = 20
"""Concurrent deletions."""
_ERRORS_IN_A_ROW = 3
"""After this many failures the store counts as down."""
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 300.0
_IN_USE_PAUSE_S = 2.0
"""Pause before checking again whether a key of a checkpoint in progress is free."""


@dataclass(frozen=True)
class DeletionPace:
    deletes_per_second: float
    grace_s: float
    retained: int = 1
    """Checkpoints that a recovery may begin with: plans of batches behind them stay."""


@dataclass(frozen=True)
class PendingDeletions:
    """How many objects will be deleted."""

    ready: int
    in_grace: int


LOOKS_EVERY_S = 6 * 3600.0
"""Between two listings of the home in one run."""

OnSweep = Callable[[PendingDeletions, StorageError | None], None]


class Collector:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        blobs: Blobs,
        manifests: Manifests,
        pace: DeletionPace,
        clock: Clock,
        lanes: Lanes,
        missing: Callable[[frozenset[str]], None] = lambda keys: None,
    ) -> None:
        """`missing` is called, on the lane, with objects that retained checkpoints name and the home has lost, in part
        or whole."""
        self._store = store
        self._journal = journal
        self._blobs = blobs
        self._manifests = manifests
        self._pace = pace
        self._clock = clock
        self._lanes = lanes
        self._missing = missing
        self._busy = False
        self._due = math.inf
        self._look_due = math.inf
        # From here on only the lane uses these.
        self._deletions = DeletionQueue()
        self._folded = False
        """Whether entries that a fold replaces may be left."""
        self._leftovers: tuple[str, ...] | None = None
        """Manifests to check in the sweep that is still due."""
        self._earlier_manifests: set[str] = set()
        self._asking: list[OnSweep] = []
        self._failures = 0
        self._paused_until = 0.0
        self._named = NamedKeys()
        self._proof = FreshProof(journal.require_standing, clock.monotonic)
        """Raises `HomeReplaced` when it is no longer the home that this run wrote to, `Fenced` when a newer run owns
        it: that one continues the deletion, and the heartbeat reports it."""

    # Called by the loop.

    def poll(self) -> None:
        """Do a slice of the work, if one is due and none is in progress."""
        if self._clock.monotonic() >= self._look_due:
            self._look_due = self._clock.monotonic() + LOOKS_EVERY_S
            self._submit(self._expect_look)
        if not self._busy and self._clock.monotonic() >= self._due:
            self._busy = True
            self._lanes.submit("collect", self._work)

    # Called on any lane.

    def sweep(self, manifests: tuple[str, ...]) -> None:
        """Delete what earlier runs left. Objects of this run are not checked: they may be in use.

        `manifests` are the keys that existed before this run claimed the job. Their names do not identify the run that
        wrote them, and a run that stalls here must not treat the manifests of a newer one as leftovers.
        """
        self._look_due = self._clock.monotonic() + LOOKS_EVERY_S
        self._submit(lambda: self._expect_sweep(manifests))

    def sweep_again(self, on_sweep: OnSweep) -> None:
        """On request. Calls `on_sweep` on the lane with how much will be deleted, or why that is unknown."""
        self._submit(lambda: self._expect_sweep_again(on_sweep))

    def retired(self, checkpoints: Sequence[CheckpointCompleted]) -> None:
        """The journal has retired these."""
        self._submit(lambda: self._schedule_retired(checkpoints))

    def orphaned(self, keys: frozenset[str]) -> None:
        """Objects of this run that no manifest ever named."""
        if keys:
            self._submit(lambda: self._schedule(keys, 0.0))

    def folded(self) -> None:
        """The journal was folded: the replaced entries can be deleted."""
        self._submit(self._expect_folded)

    def is_there(self, newest: CheckpointCompleted) -> bool:
        """Whether the home has the checkpoint for which older ones are retired. If not, `missing` gets what it names.

        Its objects were proved before its entry was appended. A home that was restored from a copy in between may have
        the same journal without the objects. The manifest was uploaded last: a copy that has it has the rest.
        """
        key = manifest_key(newest.manifest)
        if not proven_absent(self._store, key):
            return True
        log.error(
            "checkpoint %s was completed, but %s is missing from the home: no older checkpoint is retired",
            newest.id,
            key,
        )
        manifest = self._manifests.get(newest.id)
        self._missing(frozenset({key}) | (keys_in(manifest) if manifest is not None else frozenset()))
        return False

    def look_at_packs(self) -> None:
        """A checkpoint has completed: it may have made some packs sparse."""
        self._submit(self._mark_sparse)

    def _submit(self, work: Work) -> None:
        def and_then_plan() -> None:
            work()
            self._plan()

        self._lanes.submit("collect", and_then_plan)

    # The work to do.

    def _expect_sweep(self, manifests: tuple[str, ...]) -> None:
        self._leftovers = manifests
        self._earlier_manifests = set(manifests)
        self._expect_folded()

    def _expect_look(self) -> None:
        """What somebody deletes is missed in a run that goes on for months, too: later checkpoints name it as well."""
        self._leftovers = tuple(sorted(self._earlier_manifests))

    def _expect_folded(self) -> None:
        self._folded = self._journal.state.folded is not None

    def _expect_sweep_again(self, on_sweep: OnSweep) -> None:
        self._asking.append(on_sweep)
        self._leftovers = tuple(sorted(self._earlier_manifests))
        self._failures, self._paused_until = 0, 0.0

    def _answer(self, problem: StorageError | None) -> None:
        asking, self._asking = self._asking, []
        ready, in_grace = self._deletions.amount(self._clock.monotonic())
        for on_sweep in asking:
            on_sweep(PendingDeletions(ready, in_grace), problem)

    def _schedule_retired(self, checkpoints: Sequence[CheckpointCompleted]) -> None:
        for entry in checkpoints:
            if manifest := self._manifests.drop(entry.id):
                self._schedule(keys_of(entry, manifest), self._pace.grace_s)

    def _schedule(self, keys: Iterable[str], wait_s: float) -> None:
        self._deletions.schedule(keys, self._clock.monotonic() + wait_s)

    def _mark_sparse(self) -> None:
        state = self._journal.state
        manifests = self._manifests.all()
        known = [manifests[entry.id] for entry in state.restorable() if entry.id in manifests]
        savepoints = [entry.id for entry in state.retained() if entry.name]
        pinned = {key for id in savepoints if id in manifests for key in keys_in(manifests[id])}
        if known:
            sparse = sparse_packs(known[0], self._blobs.settled_packs(), pinned)
            self._blobs.mark_for_repack(frozenset(pack.key for pack in sparse))

    def _plan(self) -> None:
        """Set when the next slice is due."""
        if self._leftovers is not None or self._folded:
            self._due = self._paused_until
        else:
            self._due = max(self._paused_until, self._deletions.earliest())

    # A slice of the work.

    def _work(self) -> None:
        try:
            not_swept = _problem_of(self._sweep)
            self._answer(not_swept)
            # Separately: an entry that cannot be deleted does not block the objects.
            problem = not_swept or _problem_of(self._clear_folded)
            problem = _problem_of(self._delete_some) or problem
            if problem is not None:
                self._pause_after(problem)
            else:
                self._failures = 0
                self._paused_until = self._clock.monotonic() + SLICE / self._pace.deletes_per_second
        finally:
            self._plan()
            self._busy = False

    def _pause_after(self, error: StorageError) -> None:
        pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failures, 20))
        self._failures += 1
        self._paused_until = self._clock.monotonic() + pause
        log.warning("deletion failed, retrying in %.0f s: %s", pause, error.message)

    def _sweep(self) -> None:
        if self._leftovers is None:
            return
        stored = [*self._leftovers]
        named = self._named_by_retained()
        whole: set[str] = set()
        short: set[str] = set()
        for item in listed_objects(self._store):
            (whole if item.size >= named.get(item.key, 0) else short).add(item.key)
            if item.key.startswith("packs/"):
                self._blobs.add_pack(item.key, item.size)
            if is_of_earlier_run(item.key, self._journal.fencing_epoch):
                stored.append(item.key)
        # In this order: what is no longer live is in a manifest by then, and what is no longer needed is in its grace.
        unused = frozenset(stored) - self._blobs.live_keys()
        garbage = unused - self._needed(unused)
        state = self._journal.state
        waiting = retired_keys(self._store, state, in_grace(state, self._pace.grace_s, self._clock.wall()))
        if not self._unreadable():
            for key in garbage:
                self._schedule([key], waiting.get(key, 0.0))
        plans = [item.key for item in listed_plans(self._store)]
        self._schedule(unneeded_plans(plans, state, self._pace.retained), 0.0)
        now = self._clock.wall().timestamp()
        self._schedule([item.key for item in stale_temporaries(self._store.temporaries(), now)], 0.0)
        self._leftovers = None
        self._report_missing(named.keys() - whole - short)
        self._report_short(frozenset(short))
        keep_reserve(self._store)

    def _named_by_retained(self) -> dict[str, int]:
        """What retained checkpoints name, each with the bytes that it must have at least."""
        named: dict[str, int] = {}
        manifests = self._manifests.all()
        for entry in self._journal.state.retained():
            for file in manifests[entry.id].files() if entry.id in manifests else ():
                named[file.key] = max(named.get(file.key, 0), file.offset + file.size)
        return named

    def _report_missing(self, keys: Set[str]) -> None:
        """The listing that shows leftovers also shows what is missing."""
        if keys and (gone := absent_among(self._store, sorted(keys)) & self._named_by_retained().keys()):
            log.error("%d objects that checkpoints need are missing from the home, such as %s", len(gone), min(gone))
            self._missing(gone)

    def _report_short(self, keys: frozenset[str]) -> None:
        """A listing shows lengths, too. `missing` reads these objects before it decides anything about them."""
        if short := keys & self._named_by_retained().keys():
            log.error("%d objects that checkpoints need are incomplete in the home, such as %s", len(short), min(short))
            self._missing(short)

    def _clear_folded(self) -> None:
        folded = self._journal.state.folded
        if self._folded and folded is not None:
            with suppress(Fenced):
                guard = guard_of(self._journal.state)
                self._folded = not clear_folded(self._store, folded.upto, SLICE, guard, self._proof.renew)

    def _delete_some(self) -> None:
        """Delete the chosen keys that are not needed.

        A key may be needed again after it was retired: a later checkpoint found its bytes in the home. While that
        checkpoint is in progress the key is live; afterwards its manifest counts. So the needed keys are computed again
        after `reserve_for_deletion`, when no new reference can be made.
        """
        chosen = frozenset(self._deletions.next(self._clock.monotonic(), SLICE))
        if not chosen or not self._owns_the_home():  # asked here too: what is reserved is uploaded again if needed
            return
        self._deletions.forget(needed := self._needed(chosen))
        reserved = self._blobs.reserve_for_deletion(chosen - needed)
        self._deletions.postpone(chosen - needed - reserved, self._clock.monotonic() + _IN_USE_PAUSE_S)
        self._deletions.forget(needed := self._needed(reserved))
        doubtful: set[str] = set()
        try:
            with suppress(Fenced):
                self._delete(sorted(reserved - needed, key=objects_first), doubtful)
        finally:
            self._blobs.deleted(reserved - doubtful)

    def _owns_the_home(self) -> bool:
        """Raises `HomeReplaced` when it is no longer the home that this run wrote to."""
        try:
            self._proof.renew()
        except Fenced:
            return False
        return True

    def _delete(self, keys: Sequence[str], doubtful: set[str]) -> None:
        """Raises the last error after all keys were tried, or at once when the store seems to be down, or when the home
        is not proved to be this run's."""
        in_a_row = 0
        last: StorageError | None = None
        unreadable = self._unreadable()
        for key in keys:
            if unreadable and is_of_earlier_run(key, self._journal.fencing_epoch):
                # A manifest that could not be read may name any object of earlier runs.
                self._deletions.forget([key])  # the next run's sweep finds it, when the manifest can be read
                continue
            self._proof.renew()
            try:
                self._store.delete(key)
            except StorageError as error:
                last = error
                in_a_row += 1
                self._deletions.failed(key)
                if isinstance(error, OutcomeUnknown):
                    doubtful.add(key)
                if in_a_row == _ERRORS_IN_A_ROW:
                    break
            else:
                in_a_row = 0
                self._deletions.forget([key])
                self._earlier_manifests.discard(key)
                self._blobs.gone(key)
        if last is not None:
            raise last

    def _unreadable(self) -> bool:
        return any(entry.id not in self._manifests for entry in self._journal.state.retained())

    def _needed(self, keys: Iterable[str]) -> frozenset[str]:
        """Those that a retained checkpoint names, as far as their manifests could be read.

        Also those of a checkpoint whose completion is unknown, and of one that was retired but not scheduled yet: its
        whole grace is still ahead.
        """
        manifests = self._manifests.all()
        self._named.follow(manifests)
        completed = self._journal.state.completed
        entries = [completed.get(id) for id in manifests]
        own = {manifest_key(entry.manifest) for entry in entries if entry is not None}
        return frozenset(key for key in keys if key in own or key in self._named)


def _problem_of(step: Work) -> StorageError | None:
    try:
        step()
    except StorageError as error:
        return error
    return None
