"""Defects to be planted, one at a time, by changing the product while a test runs. The simulation must find each.

Each says which worlds it shows in, so that not many have to be visited.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from holdfast.checkpoint.manifest import digest_of
from holdfast.coordination.commands import PublishOutput, SealCheckpoint
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.history import FailureRecord
from holdfast.coordination.lifecycle import Signal
from holdfast.errors import Fenced, StorageError
from holdfast.identifiers import AttemptId, Sequence
from holdfast.plans import replay
from holdfast.plans.log import PlanLog, Standing
from holdfast.plans.plan import encode_plan
from holdfast.repository import chain, folding, journal, lines, retention, survey
from holdfast.repository.blobs import Blobs
from holdfast.repository.collection import SparsePack
from holdfast.repository.entries import (
    AnyEntry,
    CheckpointCompleted,
    CheckpointsRetired,
    CheckpointStarted,
    JournalFolded,
    Stamp,
)
from holdfast.repository.entry_bytes import StoredEntry, encode_fold, stored_entry
from holdfast.repository.fresh_proof import FreshProof
from holdfast.repository.journal import Journal
from holdfast.repository.lines import batch_of, plan_key
from holdfast.repository.names import is_plan
from holdfast.repository.ownership import Claimable, Held, Unseen, decoded, heartbeat_bytes, standing
from holdfast.repository.state import JobState
from holdfast.runtime.checkpoints.checkpointing import Checkpointing
from holdfast.runtime.commands import copying
from holdfast.runtime.ownership.watching import Watcher
from holdfast.runtime.plans import catching_up
from holdfast.runtime.plans.catching_up import CatchingUp
from holdfast.runtime.plans.keeping import PlanKeeper
from holdfast.runtime.query import candidates, causes, query_life
from holdfast.runtime.query.query_life import QueryLife
from holdfast.runtime.recovery import memory, recovery, resuming
from holdfast.runtime.recovery.consent import Consent
from holdfast.runtime.recovery.evidence import Verdict
from holdfast.runtime.recovery.recovery import Recovery
from holdfast.runtime.recovery.replaying import Replaying
from holdfast.runtime.recovery.resuming import Resuming
from holdfast.runtime.requests.serving import Serving
from holdfast.runtime.run import comparing
from holdfast.runtime.upkeep import collecting, retiring, scrubbing
from holdfast.runtime.upkeep.collecting import Collector
from holdfast.runtime.upkeep.scrubbing import Scrubbing
from holdfast.sinks import ledger, staging
from tests.simulation import store, work
from tests.simulation.outside import KINDS
from tests.simulation.sink import SimulatedSink
from tests.simulation.store import SimulatedStore

Patch = pytest.MonkeyPatch
DEFECTS: dict[str, Defect] = {}


@dataclass(frozen=True)
class Defect:
    plant: Callable[[Patch], None]
    emphasis: Mapping[str, object] = field(default_factory=dict)


def defect(**emphasis: object) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        DEFECTS[plant.__name__] = Defect(plant, emphasis)
        return plant

    return register


STALLING = {"stall": 0.02}
FOLDING = {"stall": 0.02, "history_kept": 4, "interval": "500ms", "retained": 1}
DAMAGING = {"flipped_rest": 0.05, "crash": 0.01}
QUIET_OUTSIDE = dict.fromkeys(KINDS, 0.0)
OFTEN_RESTORED = {
    **QUIET_OUTSIDE, "crash": 0.005, "stall": 0.0, "flipped_read": 0.0, "flipped_rest": 0.0, "going_back": 0.0,
    "plans": "off", "publish": "checkpoint", "retained": 3, "interval": "500ms", "pace": 0.2,
}  # fmt: skip
"""Runs live long enough for several checkpoints, and the next one is on another host half of the time. Without plans a
checkpoint that cannot be used is passed over."""
CALM = {
    **dict.fromkeys((*KINDS, "before", "after", "delayed", "slow", "full", "stall", "crash"), 0.0),
    "flipped_read": 0.0, "flipped_rest": 0.0, "outages": (),
}  # fmt: skip
"""Nothing happens but what is named besides."""

# --- the coordinator ---


@defect(timeout="1s", slow=0.05)
def a_late_acknowledgement_completes_an_expired_checkpoint(patch: Patch) -> None:
    original = Coordinator._abort

    def abort(self: Any, pending: Any, *rest: Any, **named: Any) -> None:
        original(self, pending, *rest, **named)
        self.__dict__.setdefault("expired", {})[pending.ticket] = pending

    def acknowledged(self: Any, event: Any, now: float) -> None:
        pending = self._pending.get(event.ticket) or self.__dict__.get("expired", {}).get(event.ticket)
        if pending and pending.acknowledge(event, now) and not pending.unacknowledged:
            pending.advance(Signal.ALL_ACKNOWLEDGED, now)
            self._commands.append(SealCheckpoint(pending.ticket, pending.record(now, None)))

    patch.setattr(Coordinator, "_abort", abort)
    _patch_handler(patch, "ShardAcknowledged", acknowledged)


@defect()
def output_is_published_before_the_journal_has_the_checkpoint(patch: Patch) -> None:
    original = Coordinator._seal_when_acknowledged

    def seal(self: Any, pending: Any, now: float) -> None:
        if not pending.unacknowledged:
            self._commands.append(PublishOutput(pending.barrier))
        original(self, pending, now)

    patch.setattr(Coordinator, "_seal_when_acknowledged", seal)


@defect(timeout="1s", slow=0.1, before=0.05)
def a_failure_of_a_discarded_checkpoint_is_counted(patch: Patch) -> None:
    original = Coordinator._step_failed

    def step_failed(self: Any, event: Any, now: float) -> None:
        if event.ticket not in self._pending:
            self._count(FailureRecord(event.reason, event.message), now)
        original(self, event, now)

    _patch_handler(patch, "StepFailed", step_failed)


@defect()
def a_checkpoint_is_sealed_with_a_shard_missing(patch: Patch) -> None:
    original = Coordinator._snapshot_planned

    def planned(self: Any, event: Any, now: float) -> None:
        original(self, event, now)
        for pending in self._pending.values():
            pending.unacknowledged = set(sorted(pending.unacknowledged)[:-1])

    _patch_handler(patch, "SnapshotPlanned", planned)


# --- the journal ---


@defect(before=0.05)
def an_id_is_used_again_after_a_restart(patch: Patch) -> None:
    original = JobState._take

    def take(self: JobState, entry: AnyEntry) -> None:
        last = self.last_checkpoint
        original(self, entry)
        if isinstance(entry, CheckpointStarted):
            self.last_checkpoint = last

    patch.setattr(JobState, "_take", take)


@defect(after=0.3, delayed=0.2)
def the_id_is_chosen_before_an_undecided_append_is_settled(patch: Patch) -> None:
    original = Journal.append

    def append(self: Journal, make: Any) -> AnyEntry:
        last = self.state.last_checkpoint

        def early(stamp: Stamp) -> AnyEntry:
            entry = make(stamp)
            return msgspec.structs.replace(entry, id=last + 1) if isinstance(entry, CheckpointStarted) else entry

        return original(self, early)

    patch.setattr(Journal, "append", append)


@defect(after=0.05, delayed=0.05)
def a_put_that_was_won_is_taken_as_lost(patch: Patch) -> None:
    original = Journal._try_create

    def try_create(self: Any, mine: StoredEntry) -> StoredEntry:
        standing = original(self, mine)
        if standing is not mine and standing.data == mine.data:
            anothers = AttemptId("another's")
            return stored_entry(msgspec.structs.replace(mine.entry, attempt=anothers, claim=anothers))
        return standing

    patch.setattr(Journal, "_try_create", try_create)


@defect(after=0.15, delayed=0.05, commands=0.8)
def an_undecided_append_is_forgotten(patch: Patch) -> None:
    def settle(self: Any) -> None:
        self._undecided = None

    patch.setattr(Journal, "settle", settle)


@defect(**STALLING)
def a_fenced_run_goes_on_behind_the_newer_one(patch: Patch) -> None:
    def taken(self: Any, mine: StoredEntry, standing: StoredEntry) -> bool:
        self._apply(standing)
        if standing.entry.attempt != mine.entry.attempt:
            raise Fenced("once")
        return True

    patch.setattr(Journal, "_taken", taken)


@defect(**FOLDING)
def a_run_that_slept_does_not_prove_that_its_newest_entry_stands(patch: Patch) -> None:
    patch.setattr("holdfast.repository.journal.stands", lambda store, stored: True)


@defect(**FOLDING)
def what_a_fold_stands_for_is_deleted_in_descending_order(patch: Patch) -> None:
    def clear(store: Any, upto: int, *_: object) -> bool:
        keys = [item.key for item in store.list("journal/") if chain.sequence_of(item.key) <= upto]
        for key in reversed(keys):
            store.delete(key)
        return True

    patch.setattr(collecting, "clear_folded", clear)


@defect(**FOLDING)
def a_fold_is_official_before_it_is_written(patch: Patch) -> None:
    original = Journal.append

    def fold(self: Any, dropped: Any, answers_lost_upto: Any) -> None:
        tip = self._tip
        kept = [self._stored[sequence] for sequence, _ in self.state.sequences if sequence not in dropped]
        data = encode_fold(tip.sequence, kept)
        original(
            self,
            lambda stamp: JournalFolded(
                **stamp,
                upto=tip.sequence,
                digest=digest_of(data),
                answers_lost_upto=answers_lost_upto,
            ),
        )
        self._store.create(chain.fold_key(tip.sequence), data)

    patch.setattr(Journal, "fold", fold)


@defect(**FOLDING)
def a_fold_forgets_the_retirements(patch: Patch) -> None:
    original = retention._Needed.needs

    def needs(self: Any, entry: object) -> bool:
        return not isinstance(entry, CheckpointsRetired) and original(self, entry)

    patch.setattr(retention._Needed, "needs", needs)


@defect(**FOLDING)
def an_entry_that_no_fold_stands_for_is_deleted(patch: Patch) -> None:
    original = folding.clear_folded

    def clear(store: Any, upto: Any, *others: Any) -> bool:
        done = original(store, upto, *others)
        store.delete(chain.entry_key(Sequence(upto + 1)))
        return done

    patch.setattr(collecting, "clear_folded", clear)


@defect(stray=0.04, crash=0.02, interval="500ms")
def a_gap_in_the_journal_is_taken_for_nothing(patch: Patch) -> None:
    def look(self: Any) -> chain.Chain:
        keys = [item.key for item in self._store.list("journal/") if chain.is_entry(item.key)]
        self._read([key for key in keys if key not in self._known])
        found = [self._known[key] for key in keys if key in self._known]
        folds = [stored.entry for stored in found if isinstance(stored.entry, JournalFolded)]
        fold, entries = self._fold(folds[-1] if folds else None)
        upto = folds[-1].upto if folds else 0
        return chain.Chain((*entries, *(stored for stored in found if stored.sequence > upto)), fold)

    patch.setattr(chain._Reading, "look", look)


@defect(copies_planted=0.3, crash=0.02, interval="500ms")
def copies_of_entries_are_believed(patch: Patch) -> None:
    patch.setattr(chain, "_proved_copies", lambda keys, known, copied: dict(copied))


# --- deletion ---


@defect(retained=1, interval="500ms", max_concurrent=3)
def a_blob_that_a_pending_checkpoint_uses_is_swept(patch: Patch) -> None:
    def reserve_for_deletion(self: Any, keys: Any) -> frozenset[str]:
        candidates = frozenset(keys)
        self._reserved |= candidates
        for digest, at in list(self._content.items()):
            if at.key(digest) in candidates:
                self._content.pop(digest)
        return candidates

    patch.setattr(Blobs, "reserve_for_deletion", reserve_for_deletion)


@defect(retained=1, interval="500ms", max_concurrent=3)
def a_retired_key_that_is_needed_again_is_deleted(patch: Patch) -> None:
    patch.setattr(Collector, "_needed", lambda self, keys: frozenset())


@defect(retained=1, interval="500ms", max_concurrent=3, slow=0.05)
def a_blob_is_live_only_until_the_next_checkpoint_completes(patch: Patch) -> None:
    original = Blobs.commit_manifest

    def commit_manifest(self: Any, manifest: Any) -> None:
        original(self, manifest)
        self._live.clear()

    patch.setattr(Blobs, "commit_manifest", commit_manifest)


@defect(stall=0.03, interval="500ms")
def the_manifests_of_a_newer_run_are_taken_for_leftovers(patch: Patch) -> None:
    original = Collector._sweep

    def sweep(self: Any) -> None:
        if self._leftovers is not None:
            self._leftovers = tuple(item.key for item in self._store.list("manifests/"))
        original(self)

    patch.setattr(Collector, "_sweep", sweep)
    patch.setattr(FreshProof, "renew", lambda self: None)  # which else stands in front of each deletion


@defect()
def savepoints_are_retired(patch: Patch) -> None:
    def to_retire(state: JobState, rule: Any) -> Any:
        return tuple(entry.id for entry in state.retained()[: -rule.retained])

    patch.setattr(retiring, "checkpoints_to_retire", to_retire)


@defect(grace="3s", retained=1, interval="500ms", clock_jumps=False)
def the_grace_of_a_retired_checkpoint_is_ignored(patch: Patch) -> None:
    original = Collector._schedule
    patch.setattr(Collector, "_schedule", lambda self, keys, wait_s: original(self, keys, 0.0))


@defect(grace="3s", retained=1, interval="500ms", clock_jumps=False, crash=0.015)
def the_next_run_does_not_know_of_the_grace(patch: Patch) -> None:
    patch.setattr(collecting, "in_grace", lambda state, grace_s, now: {})


@defect(timeout="1s", slow=0.1, max_concurrent=2)
def what_a_checkpoint_under_way_uploaded_is_taken_for_an_orphan(patch: Patch) -> None:
    patch.setattr(Blobs, "unclaimed", lambda self: frozenset(self._unclaimed))
    patch.setattr(Blobs, "reserve_for_deletion", lambda self, keys: frozenset(keys))


@defect(
    **CALM, late_answer=0.15, timeout="1s", interval="500ms", retained=1, grace="0s", max_concurrent=2, parallelism=4,
    has_executors=False, pace=0.2,
)  # fmt: skip
def a_key_is_reserved_for_deletion_while_an_upload_to_it_is_under_way(patch: Patch) -> None:
    patch.setattr(Blobs, "live_keys", lambda self: frozenset(list(self._live)))


@defect(interval="500ms", retained=1, grace="0s", max_concurrent=3, slow=0.05, has_executors=True)
def an_answer_counts_though_its_object_was_reserved_for_deletion(patch: Patch) -> None:
    original = Blobs.merge_remote

    def merge_remote(self: Any, remote: Any, found: Any) -> frozenset[str]:
        remote.reserved.clear()
        reserved, self._reserved = self._reserved, set()
        refused = original(self, remote, found)
        self._reserved = reserved
        return refused

    patch.setattr(Blobs, "merge_remote", merge_remote)


@defect(interval="500ms", retained=1)
def a_sparse_pack_is_deleted_at_once(patch: Patch) -> None:
    original = Collector._mark_sparse

    def mark_sparse(self: Any) -> None:
        original(self)
        for key in sorted(self._blobs._to_repack):
            self._store.delete(key)

    patch.setattr(Collector, "_mark_sparse", mark_sparse)


@defect()
def every_pack_is_carried_anew(patch: Patch) -> None:
    patch.setattr(collecting, "sparse_packs", lambda newest, sizes, pinned: [SparsePack(key, 9, 1) for key in sizes])


@defect(crash=0.015)
def leftovers_of_earlier_runs_stay(patch: Patch) -> None:
    patch.setattr(Collector, "_sweep", lambda self: setattr(self, "_leftovers", None))


# --- names, identities, bytes ---


@defect(timeout="1s", slow=0.1)
def a_savepoint_name_is_given_twice(patch: Patch) -> None:
    patch.setattr(Checkpointing, "_require_free_name", lambda self, attempt: None)


@defect(dying=0.25, interval="500ms", slow=0.1, timeout="1s")
def a_file_is_known_by_its_name_and_size_alone(patch: Patch) -> None:
    def digest_of_unchanged(self: Any, file: Any) -> Any:
        known = self._identity.get(file.path)
        return known[1] if known is not None and known[0].size == file.size else None

    patch.setattr(Blobs, "digest_of_unchanged", digest_of_unchanged)


@defect(flipped_rest=0.05, crash=0.01)
def a_restore_is_not_verified(patch: Patch) -> None:
    def restored(store: Any, file: Any) -> bytes:
        data: bytes = store.read(file.key, file.offset, file.size)
        return data

    patch.setattr(work, "restored", restored)


# --- recovery and the sink ---


@defect(**STALLING)
def a_fenced_run_publishes(patch: Patch) -> None:
    patch.setattr(SimulatedSink, "_require_owner", lambda self: None)


@defect(crash=0.01)
def recovery_does_not_roll_the_sink_forward(patch: Patch) -> None:
    def align(sink: Any, resumed: Any, new_place: bool = False, accept: bool = False) -> None:
        resumed.directory.drop_ledger_after(resumed.barrier)
        sink.discard(resumed.directory.ledger())

    patch.setattr(resuming, "align_sink", align)


@defect(**DAMAGING)
def recovery_does_not_take_back_what_was_published_beyond_it(patch: Patch) -> None:
    patch.setattr(SimulatedSink, "rewind", lambda self, upto: None)


@defect(crash=0.015, stall=0.01)
def recovery_takes_the_directory_of_any_earlier_run(patch: Patch) -> None:
    patch.setattr(JobState, "previous_run", property(lambda self: self.runs[0] if len(self.runs) > 1 else None))


@defect(**OFTEN_RESTORED | {"flipped_read": 0.1})
def a_checkpoint_that_was_passed_over_is_not_marked(patch: Patch) -> None:
    patch.setattr(Recovery, "mark_corrupt", lambda self, id, detail, passed_over=True, published=None: None)


@defect(flipped_rest=0.05, crash=0.01, scrub="3s")
def the_sink_goes_back_behind_a_checkpoint_that_was_only_found_damaged(patch: Patch) -> None:
    patch.setattr(JobState, "newest_of_the_line", lambda self: next(iter(self.restorable()), None))


@defect(flipped_read=0.15, crash=0.01, scrub="3s")
def a_checkpoint_that_was_passed_over_comes_back_repaired(patch: Patch) -> None:
    def mark_repaired(self: Any, ids: Any) -> None:
        for id in ids:
            scrubbing.mark_repaired(self._journal, id, "right again")

    def clear(self: Any, ids: Any) -> None:
        marked = [id for id in ids if id in self._journal.state.corrupt]
        if marked:
            self._lanes.submit("journal", lambda: self._appending(lambda: self._mark_repaired(marked)))

    original = Scrubbing._check_object

    def check_object(self: Any, stored: Any, *rest: Any) -> None:
        original(self, stored, *rest)
        self._clear(stored.checkpoints)

    patch.setattr(Scrubbing, "_mark_repaired", mark_repaired)
    patch.setattr(Scrubbing, "_clear", clear)
    patch.setattr(Scrubbing, "_check_object", check_object)


@defect(**OFTEN_RESTORED | {"flipped_read": 0.05})
def a_checkpoint_that_was_passed_over_comes_back_although_the_other_line_went_on(patch: Patch) -> None:
    def may_return(state: JobState, is_dead: object) -> list[CheckpointCompleted]:
        return [state.completed[id] for id in sorted(state.passed_over, reverse=True) if id not in state.retired]

    patch.setattr(resuming, "may_return", may_return)
    patch.setattr(Resuming, "_can_return", lambda self, entry: True)
    patch.setattr(Recovery, "is_sound", lambda self, entry: True)


@defect(
    **CALM, sink_full=((3.0, 20.0),), broken=((9.0, 20.0),), dying=0.05, on_exceeded="fail", tolerable_failures=0,
    timeout="1s", interval="500ms", retained=8, pace=0.2, going_back=0.0, commands=0.0,
)  # fmt: skip
def what_was_passed_over_on_a_wrong_verdict_never_comes_back(patch: Patch) -> None:
    patch.setattr(Resuming, "bring_back", lambda self: None)


@defect(dying=0.2, before=0.1, io_errors=0.3, plans="off", publish="checkpoint", retained=3)
def an_abandoned_directory_is_used_again(patch: Patch) -> None:
    def restart_failed(self: Any, failed: Any, failure: Any) -> Any:
        verdict = self._supervision.died(failure, self._clock.monotonic())
        if isinstance(verdict, query_life.PermanentFailure):
            return (self._end_for(verdict),)
        self._restart = verdict
        return ()

    patch.setattr(QueryLife, "_restart_failed", restart_failed)


# --- commands, requests, going back ---


@defect(commands=0.8, after=0.1)
def a_request_is_answered_beside_the_journal_lane(patch: Patch) -> None:
    def reply(self: Any, outcome: Any) -> None:
        self._unwritten = outcome
        self._write_answer()

    patch.setattr(Serving, "_reply", reply)


@defect(commands=0.8, before=0.05, crash=0.01)
def a_request_that_was_answered_is_served_again(patch: Patch) -> None:
    original = JobState._take

    def take(self: JobState, entry: AnyEntry) -> None:
        original(self, entry)
        self.answers.clear()

    patch.setattr(JobState, "_take", take)


@defect(
    **QUIET_OUTSIDE, before=0.0, after=0.05, delayed=0.4, outages=(), commands=1.0, interval="500ms", retained=1,
    history_kept=4, answers_kept=1,
)  # fmt: skip
def a_fold_drops_an_answer_and_does_not_say_so(patch: Patch) -> None:
    """A request that reappears finds neither its answer nor that there may have been one."""
    original = Journal.fold
    patch.setattr(Journal, "fold", lambda self, dropped, answers_lost_upto: original(self, dropped, Sequence(0)))


@defect(going_back=0.8, crash=0.01)
def the_same_arguments_go_back_again(patch: Patch) -> None:
    patch.setattr(JobState, "went_back", property(lambda self: None, lambda self, value: None), raising=False)


@defect(going_back=0.8)
def what_was_abandoned_on_request_is_chosen_again(patch: Patch) -> None:
    patch.setattr(recovery, "abandoned_by", lambda state, chosen: ())


@defect(commands=0.8)
def names_in_the_journal_are_ignored(patch: Patch) -> None:
    patch.setattr(JobState, "_rename", lambda self, id, name: None)


# --- the outside world ---

OLDER_TABLE = {"table_rolled_back": 0.3, "crash": 0.01}


@defect(table_restored=0.3, crash=0.01)
def the_sink_is_not_checked_when_it_is_opened(patch: Patch) -> None:
    original = SimulatedSink._prove
    patch.setattr(SimulatedSink, "_prove", lambda self: original(self) if self._opened is not None else None)


@defect(table_emptied=0.3)
def the_sink_is_not_checked_when_it_publishes(patch: Patch) -> None:
    original = SimulatedSink._prove
    patch.setattr(SimulatedSink, "_prove", lambda self: original(self) if self._opened is None else None)
    patch.setattr(ledger, "require_unbroken", lambda published, upto, ledger: None)


@defect(**OLDER_TABLE)
def a_gap_in_the_ledger_is_published(patch: Patch) -> None:
    patch.setattr(ledger, "require_unbroken", lambda published, upto, ledger: None)


@defect(skew=1.0, commands=0.8)
def a_heartbeat_is_judged_by_the_clock(patch: Patch) -> None:
    original = Watcher.answer

    def answer(self: Watcher, journal: Any, watched: Any = None) -> Any:
        found = standing(journal.load(), decoded(heartbeat_bytes(self.store)), self.process)
        if not isinstance(found, Unseen):
            return original(self, journal, watched)
        if found.heartbeat.looks_fresh(self.clock.wall()):  # type: ignore[attr-defined]
            return Held(found.heartbeat, found.purpose)
        return Claimable("its clock says so")

    patch.setattr(Watcher, "answer", answer)


@defect(copied=0.3, going_back=0.8)
def a_copy_knows_nothing_of_decisions(patch: Patch) -> None:
    original = copying.missing

    def missing(*arguments: Any, **named: Any) -> Any:
        return [entry for entry in original(*arguments, **named) if isinstance(entry, CheckpointCompleted)]

    patch.setattr(copying, "missing", missing)


@defect(**OFTEN_RESTORED | {"stray": 0.12})
def one_404_for_an_object_is_believed(patch: Patch) -> None:
    patch.setattr(Recovery, "_require_absent", lambda self, entry, error: None)


@defect(stray=0.05, crash=0.01)
def one_404_for_an_entry_is_believed(patch: Patch) -> None:
    """What is denied was never there, and the chain is not proved."""

    def look(self: Any) -> Any:
        listed = [item.key for item in self._store.list("journal/") if chain.is_entry(item.key)]
        keys = [key for key in listed if key != self._ignoring]
        self._read([key for key in keys if key not in self._known])
        found = [self._known[key] for key in keys if key in self._known]
        official = next((e.entry for e in reversed(found) if isinstance(e.entry, JournalFolded)), None)
        fold, entries = self._fold(official)
        entries += [stored for stored in found if official is None or stored.sequence > official.upto]
        return chain.Chain(tuple(entries), fold)

    patch.setattr(chain._Reading, "look", look)


@defect(gateway=0.1)
def the_answer_of_a_gateway_is_believed(patch: Patch) -> None:
    """And an entry of one's own in one's place is taken for another's."""
    original = Journal._taken

    def taken(self: Any, mine: StoredEntry, standing: StoredEntry) -> bool:
        if standing.entry.attempt != mine.entry.attempt:
            raise Fenced("another's entry")
        return original(self, mine, standing)

    patch.setattr(store, "named", lambda operation, subject, error, effect: StorageError(f"could not {operation}"))
    patch.setattr(Journal, "_taken", taken)


@defect(home_emptied=0.3, crash=0.004)
def an_empty_journal_is_a_new_job(patch: Patch) -> None:
    original = memory.agree

    def agree(job: Any, home: Any, state: JobState, memories: Any, asked: Any, planned: Any = None) -> Any:
        return original(job, home, state, [] if state.run is None else memories, asked, planned)

    patch.setattr(comparing, "agree", agree)
    patch.setattr(SimulatedSink, "_require_owner", lambda self: None)


@defect(home_rolled_back=0.4, crash=0.01, stall=0.01)
def a_home_that_knows_less_is_believed(patch: Patch) -> None:
    """Epochs are compared by nobody, and what the sink shows beyond the home is taken back."""
    original = memory.agree
    patch.setattr(
        comparing, "agree", lambda job, home, state, memories, asked, planned: original(job, home, state, [], asked)
    )
    patch.setattr(Consent, "_may_take_back", lambda self, published: True)
    patch.setattr(SimulatedSink, "_require_owner", lambda self: None)


@defect(home_swapped=0.3, home_rolled_back=0.3, retained=1, interval="500ms", grace="3s")
def the_home_is_not_proved_before_a_deletion(patch: Patch) -> None:
    patch.setattr(FreshProof, "renew", lambda self: None)


@defect(home_swapped=0.3, home_rolled_back=0.3, retained=1, interval="500ms", grace="3s")
def a_proof_from_before_a_stall_holds(patch: Patch) -> None:
    patch.setattr("holdfast.repository.fresh_proof.HOLDS_S", 1e9)


@defect(**QUIET_OUTSIDE, staged_lost=0.5, crash=0.01)
def staged_files_are_not_asked_for(patch: Patch) -> None:
    patch.setattr(Consent, "_lost", lambda self, directory, published, upto: None)


@defect(**OFTEN_RESTORED | {"io_errors": 0.4, "dying": 0.02, "crash": 0.002})
def an_error_while_reading_is_damage(patch: Patch) -> None:
    patch.setattr(candidates, "verdict", lambda **evidence: Verdict.CHECKPOINT)
    patch.setattr(causes, "_of_the_machine", lambda chain: None)


@defect(table_deleted_from=0.4, going_back=0.9, crash=0.01)
def the_sink_is_asked_after_the_journal_has_abandoned(patch: Patch) -> None:
    original = Resuming.go_on

    def go_on(self: Any, resumed: Any) -> bool:
        self._recovery.record_abandonment(resumed, self._consent.published())
        return original(self, dataclasses.replace(resumed, abandons=None) if resumed.abandons else resumed)

    patch.setattr(Resuming, "go_on", go_on)
    patch.setattr(comparing, "ask_beforehand", lambda *asked: None)


@defect(vanishing=0.1)
def rows_are_not_counted(patch: Patch) -> None:
    patch.setattr(staging, "_require_all", lambda directory, written, staged, missing: None)


@defect(own_writer=1.0, crash=0.01, plans="off")
def an_own_writer_is_resumed_whatever_it_has_seen(patch: Patch) -> None:
    patch.setattr(catching_up, "require_no_skips", lambda *arguments, **named: None)


@defect(own_writer=1.0, plans="require")
def a_plan_is_put_after_the_sink_has_seen_the_batch(patch: Patch) -> None:
    def created(self: Any, log_of_line: Any, plan: Any, cancelled: Any) -> Any:
        self._remember(log_of_line, plan, None)
        return None

    patch.setattr(PlanKeeper, "_created", created)


@defect(own_writer=1.0, crash=0.02, stall=0.02, plans="require")
def a_plan_is_overwritten(patch: Patch) -> None:
    def create(self: Any, plan: Any) -> Any:
        self._store.put(plan_key(self._folder, plan.batch_id), encode_plan(plan))
        return plan

    patch.setattr(PlanLog, "create", create)


@defect(own_writer=1.0, crash=0.02, plans="require")
def one_batch_too_many_is_discarded(patch: Patch) -> None:
    _shift_discarding(patch, 1)


@defect(own_writer=1.0, crash=0.02, plans="require")
def one_batch_too_few_is_discarded(patch: Patch) -> None:
    _shift_discarding(patch, -1)


@defect(**QUIET_OUTSIDE, publish="batch", plans="prefer", before=0.1, crash=0.003, pace=0.2)
def a_batch_is_shown_before_its_plan_is_durable(patch: Patch) -> None:
    patch.setattr(PlanKeeper, "durable_upto", lambda self, batch: batch)


@defect(publish="batch", plans="require", crash=0.02)
def shown_batches_are_not_repeated(patch: Patch) -> None:
    original = CatchingUp._read
    patch.setattr(
        CatchingUp, "_read", lambda self, *given: original(self, *given) if self._query.sink is None else Standing(())
    )

    def placed(self: Any, log_of_line: Any, plan: Any, cancelled: Any) -> Any:
        self._put(log_of_line, plan, cancelled)
        return plan

    patch.setattr(PlanKeeper, "_placed", placed)


def _shift_discarding(patch: Patch, by: int) -> None:
    original = replay.repeats

    def repeats(plans: Any, sink_has: Any, *, stateful: bool) -> Any:
        return original(plans, None if sink_has is None else sink_has + by, stateful=stateful)

    patch.setattr(catching_up, "repeats", repeats)


@defect(
    own_writer=1.0, plans="require", flipped_rest=0.03, blobs_expire=0.2, retained=3, crash=0.006, going_back=0.0,
    scrub="off", interval="500ms",
)  # fmt: skip
def a_fall_back_leaves_a_batch_out(patch: Patch) -> None:
    original = Replaying._plans

    def plans(self: Any, state: Any, chosen: Any, target: Any) -> Any:
        found = original(self, state, chosen, target)
        return (*found[:1], *found[2:])

    patch.setattr(Replaying, "_plans", plans)


LOSING_CHECKPOINTS = {
    "own_writer": 0.0, "publish": "checkpoint", "plans": "prefer", "flipped_rest": 0.1, "flipped_read": 0.0,
    "blobs_expire": 0.1, "retained": 3, "crash": 0.015, "going_back": 0.0, "scrub": "off", "interval": "500ms",
}  # fmt: skip


@defect(**LOSING_CHECKPOINTS)
def a_fall_back_takes_rows_back_though_all_plans_are_there(patch: Patch) -> None:
    patch.setattr(Replaying, "behind", lambda self, chosen, unusable: None)


@defect(**LOSING_CHECKPOINTS)
def a_fall_back_behind_a_sink_discards_one_batch_too_few(patch: Patch) -> None:
    original = CatchingUp._repeat_shown
    patch.setattr(
        CatchingUp, "_repeat_shown", lambda self, directory, sink, packed: original(self, directory, sink, packed[:-1])
    )


@defect(**LOSING_CHECKPOINTS)
def a_fall_back_behind_a_sink_discards_one_batch_too_many(patch: Patch) -> None:
    original, steps = CatchingUp._repeat_shown, replay.repeats

    def repeat_shown(self: Any, directory: Any, sink: Any, packed: Any) -> None:
        if packed:
            last = packed[-1]
            more = msgspec.structs.replace(last, batch_id=last.batch_id + 1, offsets=str(int(last.offsets) + 1))
            packed = (*packed, more)
        original(self, directory, sink, packed)

    patch.setattr(CatchingUp, "_repeat_shown", repeat_shown)
    patch.setattr(
        catching_up, "repeats", lambda plans, has, stateful: steps(plans, plans[-1].batch_id, stateful=stateful)
    )


@defect(own_writer=1.0, crash=0.02, stall=0.02, plans="require")
def who_comes_second_runs_its_own_plan(patch: Patch) -> None:
    original = PlanLog.create

    def create(self: Any, plan: Any) -> Any:
        original(self, plan)
        return plan

    patch.setattr(PlanLog, "create", create)


@defect(**QUIET_OUTSIDE, publish="batch", plans="require", going_back=0.6, crash=0.004, pace=0.2)
def a_new_line_of_batches_has_the_plans_of_the_old_one(patch: Patch) -> None:
    patch.setattr(lines, "line_of", lambda state: Sequence(0))


@defect(**QUIET_OUTSIDE, publish="batch", plans="prefer", before=0.1, outages=((4.0, 9.0),), crash=0.006, pace=0.2)
def what_the_run_before_could_not_ship_is_forgotten(patch: Patch) -> None:
    patch.setattr(PlanKeeper, "ship_left", lambda self, directory, after, upto: None)


@defect(**OFTEN_RESTORED | {"short": 0.1})
def a_short_read_is_believed(patch: Patch) -> None:
    patch.setattr(SimulatedStore, "_whole", lambda self, key, data, length: data)


@defect(table_emptied=0.4, publish="batch", plans="prefer", interval="15s", crash=0.01)
def the_directory_of_a_sink_that_was_emptied_is_used(patch: Patch) -> None:
    original = Consent.lost

    def lost(self: Consent, directory: Any) -> Any:
        return original(self, directory) if self.opened or not self.new_place else None

    patch.setattr(Consent, "lost", lost)


@defect(
    publish="batch", plans="prefer", on_exceeded="fail", tolerable_failures=0, interval="2s", pace=0.2,
    outages=((4.0, 10.0),),
)  # fmt: skip
def plans_are_shipped_behind_a_gap(patch: Patch) -> None:
    patch.setattr(PlanKeeper, "_leave_gap", lambda self, first, last: None)


@defect(litter=0.4, crash=0.01)
def every_name_in_the_journal_is_taken_for_an_entry(patch: Patch) -> None:
    patch.setattr(chain, "is_entry", lambda key: True)


@defect(litter=0.4, crash=0.01)
def an_unknown_name_is_taken_for_an_orphan(patch: Patch) -> None:
    patch.setattr(survey, "is_blob_or_pack", lambda key: True)
    patch.setattr(survey, "is_manifest", lambda key: True)


@defect(litter=0.4, crash=0.015, publish="batch", plans="require")
def an_unknown_name_ends_the_plans(patch: Patch) -> None:
    def newest(store: Any, folder: str, after: Any) -> Any:
        for item in store.list(folder, plan_key(folder, after)):
            if not is_plan(item.key) or batch_of(item.key) != after + 1:
                break
            after = batch_of(item.key)
        return after

    patch.setattr(comparing, "newest_planned", newest)


@defect(
    **CALM | {"crash": 0.006}, sink_full=((3.0, 20.0),), broken=((9.0, 20.0),), dying=0.05, on_exceeded="fail",
    tolerable_failures=0, timeout="1s", interval="500ms", retained=8, pace=0.2, going_back=0.0, commands=0.0,
    publish="batch", plans="prefer",
)  # fmt: skip
def what_readers_do_not_see_yet_is_cut_anew(patch: Patch) -> None:
    original = Replaying._plans
    patch.setattr(
        Replaying, "_plans", lambda self, state, chosen, target, barriers: original(self, state, chosen, target, ())
    )


@defect()
def no_run_keeps_a_reserve(patch: Patch) -> None:
    patch.setattr(collecting, "keep_reserve", lambda store: None)


@defect()
def the_reserve_of_a_full_home_is_not_released(patch: Patch) -> None:
    patch.setattr(journal, "release_reserve", lambda store: None)


def _patch_handler(patch: Patch, event: str, handler: Any) -> None:
    changed = {kind: handler if kind.__name__ == event else method for kind, method in Coordinator._HANDLERS.items()}
    patch.setattr(Coordinator, "_HANDLERS", changed)
