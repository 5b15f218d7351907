"""Performs the coordinator's commands about checkpoints: each step does its I/O and reports the result as an event.

Lanes: `begin`, `seal`, `record` and `retire` run on the journal lane, planning and `copy` on the copy lane. So no two
appends overlap, and a checkpoint that was aborted before its `seal` began is never appended.

A checkpoint is planned and its files are pinned as soon as it begins, before the journal has answered: from then on
Spark may delete any of them.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from holdfast.checkpoint.layout import NotPlannable, ShardPlan, SnapshotPlan
from holdfast.checkpoint.manifest import (
    FORMAT,
    Manifest,
    ManifestShard,
    digest_of,
    encode_manifest,
    manifest_key,
)
from holdfast.coordination.commands import BeginCheckpoint
from holdfast.coordination.events import (
    CheckpointBegun,
    CheckpointSealed,
    Event,
    PlanFailed,
    RunFenced,
    ShardAcknowledged,
    ShardFailed,
    SnapshotPlanned,
    StepFailed,
)
from holdfast.coordination.failure_reasons import FailureReason
from holdfast.coordination.history import CheckpointRecord
from holdfast.errors import Fenced, HomeReplaced, OutcomeUnknown, StorageError
from holdfast.identifiers import BatchId, CheckpointId, JobName, Sequence, ShardId, Ticket
from holdfast.job_log import log
from holdfast.repository.absence import missing
from holdfast.repository.blobs import BeingDeleted, Blobs
from holdfast.repository.entries import (
    BatchSpan,
    CheckpointStarted,
    Requests,
    Stamp,
)
from holdfast.repository.journal import Journal, MakeEntry
from holdfast.repository.lines import line_of
from holdfast.runtime.checkpoints.attempt import Attempt
from holdfast.runtime.checkpoints.checkpoint_entries import Stored, completed_entry, failed_entry
from holdfast.runtime.checkpoints.headroom_watch import HeadroomWatch
from holdfast.runtime.checkpoints.manifests import Manifests
from holdfast.runtime.checkpoints.parts import Parts
from holdfast.runtime.checkpoints.plan_packer import PlanPacker
from holdfast.runtime.clock import Clock
from holdfast.runtime.errors_and_reasons import CompletionInDoubt, NameTaken, message_of, reason_of
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import RunDirectory
from holdfast.sinks.protocol import Step
from holdfast.snapshot.carrier import Cancelled, ShardCopy, ShardDeclined, grouped
from holdfast.sources.skipped import SkipCount, Skipped, added_since
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Usage

_UNRECORDED_KEPT = 200
_PLANNING_TRIES = 3
"""A file may disappear between the listing of the directory and its pinning."""


class Checkpointing:
    def __init__(
        self,
        *,
        job: JobName,
        store: ObjectStore,
        journal: Journal,
        blobs: Blobs,
        manifests: Manifests,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Event], None],
        still_owner: Callable[[], bool],
        describe: Callable[[], dict[str, str]],
        parallelism: int,
        step: Step,
        headroom: HeadroomWatch,
        skipped: SkipCount,
        usage: Callable[[], Usage] | None = None,
        packer: PlanPacker | None = None,
        ran: Callable[[BatchId], tuple[BatchSpan, ...]] = lambda barrier: (),
        writer_has: Callable[[RunDirectory], BatchId | None] = lambda directory: None,
        judge: Callable[[Manifest], None] = lambda manifest: None,
    ) -> None:
        """`usage` returns the requests to the home so far. `packer` is None when no plans are kept. `ran` returns what
        is known of the batches up to a barrier that no completed checkpoint has. `writer_has` returns the newest batch
        that the sink of the query's own writer reports. `judge` raises `NotPlannable` when what was copied is no
        checkpoint of the job."""
        self._judge = judge
        self._writer_has = writer_has
        self._packer = packer
        self._ran = ran
        self._job = job
        self._store = store
        self._journal = journal
        self._blobs = blobs
        self._manifests = manifests
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._still_owner = still_owner
        self._describe = describe
        self._parallelism = parallelism
        self._step = step
        self._headroom = headroom
        self._can_pin = True
        self._usage = usage
        self._usage_recorded = Usage()
        """As of the newest completed checkpoint."""
        self._skipped = skipped
        self._skipped_recorded: Skipped = {}
        """The same."""
        self._attempts: dict[Ticket, Attempt] = {}
        self._unrecorded: deque[tuple[CheckpointRecord, Sequence]] = deque(maxlen=_UNRECORDED_KEPT)
        self.journal_answers = True
        """Whether the last step on the journal lane succeeded. If not, optional steps do not try."""
        self._written: dict[CheckpointId, str] = {}
        """Keys of manifests whose checkpoint is not known to be completed."""

    @property
    def idle(self) -> bool:
        return not self._attempts

    # Commands; called by the loop.

    def reached(self, barrier: BatchId, directory: RunDirectory) -> None:
        """A batch was committed."""
        packer = self._packer
        if packer is not None and packer.is_due(barrier):
            self._lanes.submit("plans", lambda: packer.pack(directory, barrier, alone=False))

    def begin(self, command: BeginCheckpoint, directory: RunDirectory, published: BatchId | None) -> None:
        attempt = Attempt(
            command.ticket,
            command.kind,
            command.name,
            command.barrier,
            directory,
            self._clock.monotonic(),
        )
        self._attempts[command.ticket] = attempt
        self._blobs.begin(command.ticket)
        # The ledger can drop published batches only while no other checkpoint copies it.
        alone = len(self._attempts) == 1
        self._lanes.submit("copy", lambda: self._prepare(attempt, published if alone else None, alone=alone))
        self._lanes.submit("journal", lambda: self._reporting(attempt, self._begin))

    def copy(self, ticket: Ticket, shards: tuple[ShardId, ...], *, again: bool) -> None:
        attempt = self._attempts[ticket]
        if again:
            self._lanes.submit("copy", lambda: self._copy_again(attempt, shards))
            return
        assert attempt.plan is not None
        wanted = set(shards)
        plans = [shard for shard in attempt.plan.shards if shard.shard in wanted]
        groups = grouped(plans, self._parallelism, self._blobs.is_new)
        parts = Parts(plans, groups)
        for group in groups:
            self._lanes.submit("copy", lambda group=group: self._copy_group(attempt, group, parts))  # type: ignore[misc]

    def seal(self, progress: CheckpointRecord) -> None:
        attempt = self._attempts[progress.ticket]
        self._lanes.submit("journal", lambda: self._reporting(attempt, lambda attempt: self._seal(attempt, progress)))

    def abort(self, ticket: Ticket) -> None:
        if attempt := self._attempts.get(ticket):
            attempt.aborted = True
        self._leave(ticket)

    def record(self, record: CheckpointRecord) -> None:
        """A completed checkpoint is already in the journal; a failed one is written when the journal is reachable."""
        attempt = self._attempts.get(record.ticket)
        if attempt is not None or not record.completed:
            self._headroom.ended(record, attempt.pinned_after if attempt else None, self._can_pin)
        if record.completed:
            self._leave(record.ticket)
        else:
            self._unrecorded.append((record, self._journal.state.head))
        if self._unrecorded:
            self._lanes.submit("journal", self.write_unrecorded)

    def _leave(self, ticket: Ticket) -> None:
        """The checkpoint is in the journal, or never will be."""
        self._blobs.end(ticket)
        if attempt := self._attempts.pop(ticket, None):
            self._lanes.submit("copy", lambda: attempt.directory.unpin(ticket))

    def mark_damaged(self, damaged: Collection[CheckpointId], proven: CheckpointId | None) -> None:
        """Upload again what only `damaged` checkpoints name; `proven` has just been read and verified in full."""
        manifests = self._manifests.all()
        named = {file.key for id in damaged if id in manifests for file in manifests[id].files()}
        if proven is not None and proven in manifests:
            named -= {file.key for file in manifests[proven].files()}
        self._blobs.mark_damaged(named)

    def orphaned_manifests(self) -> frozenset[str]:
        """Keys of manifests whose checkpoint will never complete; each is returned once. Called on the journal lane,
        where no seal is in progress."""
        if self._journal.undecided:
            return frozenset()
        under_way = {attempt.id for attempt in list(self._attempts.values())}
        ended = [id for id in self._written if id not in under_way]
        keys = {id: self._written.pop(id) for id in ended}
        orphans = [id for id in ended if id not in self._journal.state.completed]
        for id in orphans:
            self._manifests.drop(id)
        return frozenset(keys[id] for id in orphans)

    # Steps; called on a lane.

    def _reporting(self, attempt: Attempt, step: Callable[[Attempt], None]) -> None:
        if attempt.aborted:
            return
        try:
            step(attempt)
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
        except Exception as error:
            if isinstance(error, StorageError):
                self.journal_answers = False
            if not isinstance(error, StorageError | NotPlannable | NameTaken):
                log.exception("holdfast: unexpected error in checkpoint %s", attempt.id)
            self._post(StepFailed(attempt.ticket, reason_of(error), message_of(error)))

    def _begin(self, attempt: Attempt) -> None:
        self._step("checkpoint.begin")

        def started(stamp: Stamp) -> CheckpointStarted:
            # The id is chosen here, after an unknown append was settled: that append may have used the next id.
            return CheckpointStarted(
                **stamp,
                id=CheckpointId(self._journal.state.last_checkpoint + 1),
                checkpoint_kind=attempt.kind,
                name=attempt.name,
                barrier_batch_id=attempt.barrier,
            )

        entry = self._journal.append(started)
        assert isinstance(entry, CheckpointStarted)
        attempt.id = entry.id
        self.journal_answers = True
        self._step("checkpoint.begun")
        self._post(CheckpointBegun(attempt.ticket, entry.id))
        if self._unrecorded:
            self._lanes.submit("journal", self.write_unrecorded)

    def _prepare(self, attempt: Attempt, prunable: BatchId | None, *, alone: bool) -> None:
        try:
            if prunable is not None:
                attempt.directory.prune_ledger(prunable)
            if self._packer is not None:
                self._packer.pack(attempt.directory, attempt.barrier, alone=alone)
            plan = attempt.plan = self._pinned_plan(attempt)
            attempt.writer_has = self._writer_has(attempt.directory)
            self._step("checkpoint.planned")
        except Exception as error:
            if not isinstance(error, StorageError | NotPlannable):
                log.exception("holdfast: unexpected error while planning a checkpoint of batch %s", attempt.barrier)
            self._post(PlanFailed(attempt.ticket, reason_of(error), message_of(error)))
        else:
            self._post(SnapshotPlanned(attempt.ticket, tuple(shard.shard for shard in plan.shards)))
        if attempt.aborted:
            attempt.directory.unpin(attempt.ticket)

    def _pinned_plan(self, attempt: Attempt) -> SnapshotPlan:
        """Pins only files that are not in the home yet: only those must be read."""
        for tries_left in reversed(range(_PLANNING_TRIES)):
            plan = attempt.directory.plan(attempt.barrier)
            unknown = [file for file in plan.files() if not self._blobs.holds(file)]
            try:
                self._can_pin = attempt.directory.pin(attempt.ticket, unknown)
                if self._can_pin:
                    attempt.pinned_after = self._clock.monotonic() - attempt.started
                return plan
            except NotPlannable:
                if not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    def _copy_again(self, attempt: Attempt, shards: tuple[ShardId, ...]) -> None:
        """Without pins, plan the directory again: Spark may have replaced a file that disappeared with an equivalent
        one."""
        if attempt.aborted:
            return
        assert attempt.plan is not None
        try:
            plan = attempt.plan if attempt.pinned_after is not None else attempt.directory.plan(attempt.barrier)
            fresh = {shard.shard: shard for shard in plan.shards}
        except Exception as error:
            self._fail_shards(attempt, shards, error)
            return
        gone = tuple(shard for shard in shards if shard not in fresh)
        self._fail_shards(attempt, gone, NotPlannable("the shard no longer exists"))
        again = tuple(fresh[shard] for shard in shards if shard in fresh)
        self._copy_group(attempt, again, Parts(again, (again,)))

    def _copy_group(self, attempt: Attempt, group: tuple[ShardPlan, ...], parts: Parts) -> None:
        """A declined shard does not fail the other shards of its group."""
        while group and not attempt.aborted:
            try:
                copies = attempt.directory.copy(group, self._blobs, lambda: self._cancelled(attempt))
            except Cancelled:
                return
            except ShardDeclined as error:
                self._fail_shards(attempt, parts.fail((error.shard,)), error)
                group = tuple(shard for shard in group if shard.shard != error.shard)
            except Exception as error:
                if not isinstance(error, StorageError | BeingDeleted):
                    log.exception("holdfast: unexpected error while copying for checkpoint %s", attempt.id)
                self._fail_shards(attempt, parts.fail(shard.shard for shard in group), error)
                return
            else:
                self._acknowledge(attempt, tuple(whole for copy in copies if (whole := parts.add(copy)) is not None))
                return

    def _acknowledge(self, attempt: Attempt, copies: tuple[ShardCopy, ...]) -> None:
        self._step("checkpoint.copied")
        for copy in copies:
            attempt.copies[copy.shard] = copy
        for copy in copies:
            self._post(
                ShardAcknowledged(
                    attempt.ticket,
                    copy.shard,
                    bytes_total=sum(file.size for file in copy.files),
                    bytes_new=copy.bytes_new,
                    files=len(copy.files),
                    objects_written=copy.objects_written,
                    host=copy.host,
                )
            )

    def _fail_shards(self, attempt: Attempt, shards: tuple[ShardId, ...], error: Exception) -> None:
        for shard in shards:
            number = attempt.failures[shard] = attempt.failures.get(shard, 0) + 1
            self._post(ShardFailed(attempt.ticket, shard, reason_of(error), message_of(error), number))

    def _cancelled(self, attempt: Attempt) -> bool:
        return attempt.aborted or not self._still_owner()

    def _seal(self, attempt: Attempt, progress: CheckpointRecord) -> None:
        assert attempt.id is not None
        assert attempt.plan is not None
        manifest = Manifest(
            format=FORMAT,
            job=self._job,
            checkpoint=attempt.id,
            barrier_batch_id=attempt.barrier,
            fencing_epoch=self._journal.fencing_epoch,
            shards=tuple(
                ManifestShard(shard.shard, attempt.copies[shard.shard].files) for shard in attempt.plan.shards
            ),
            spark=self._describe(),
        )
        self._judge(manifest)
        data = encode_manifest(manifest)
        digest = digest_of(data)
        self._step("checkpoint.acknowledged")
        self._written[attempt.id] = manifest_key(digest)
        self._store.upload(manifest_key(digest), [data])
        self._step("checkpoint.manifest")
        if attempt.aborted:
            return
        self._journal.settle()
        self._require_free_name(attempt)
        self._require_uploaded(manifest, manifest_key(digest))
        # Added before the append: if its outcome is unknown, a sweep must still see the manifest.
        self._manifests.add(attempt.id, manifest)
        usage = self._usage() if self._usage is not None else None
        requests = Requests(**dataclasses.asdict(usage.since(self._usage_recorded))) if usage is not None else None
        skipped = self._skipped.total
        copied_after = progress.ended_at - progress.triggered_at
        needed_s = copied_after if attempt.pinned_after is None else attempt.pinned_after
        entry = completed_entry(
            progress,
            self._wall_at(progress.triggered_at),
            manifest,
            Stored(digest, len(data)),
            self._clock.monotonic(),
            requests,
            self._headroom.measured(needed_s, attempt.pinned_after is not None),
            line_of(self._journal.state),
            self._ran(attempt.barrier),
            attempt.writer_has,
            added_since(self._skipped_recorded, skipped),
            {file.digest for entry in self._journal.state.retained() for file in entry.packed},
        )
        try:
            self._journal.append(entry)
        except OutcomeUnknown as error:
            raise CompletionInDoubt(error.message, hint=error.hint) from error
        self._usage_recorded = usage or self._usage_recorded
        self._skipped_recorded = skipped
        self._blobs.commit_manifest(manifest)
        self._step("checkpoint.journal")
        self._post(CheckpointSealed(attempt.ticket))

    def _require_uploaded(self, manifest: Manifest, key: str) -> None:
        """An object that no completed checkpoint names yet is backed only by the answer to its upload. If the home was
        another one at that time (emptied, swapped, not mounted), the answer was true, and the object is not here."""
        unproved = self._blobs.unclaimed_of(manifest)
        if gone := missing(self._store, [*sorted(unproved), key]):
            self._blobs.mark_damaged(gone)
            raise HomeReplaced(
                f"could not complete checkpoint {manifest.checkpoint}: {len(gone)} objects of it were uploaded "
                f"and are missing from the home, for example {min(gone)}",
                hint=FailureReason.HOME_REPLACED.rule.hint,
            )

    def _require_free_name(self, attempt: Attempt) -> None:
        """An aborted attempt may have completed all the same, and hold the name."""
        if attempt.name is not None and attempt.name in {entry.name for entry in self._journal.state.retained()}:
            raise NameTaken(f"savepoint {attempt.name!r} exists")

    def write_unrecorded(self) -> None:
        """Writes failed checkpoints into the history. Called on the journal lane.

        Best effort: what cannot be written now is written after a later checkpoint has begun. When the home has just
        failed to answer, the lane does not wait for it again.
        """
        try:
            while self._unrecorded and self.journal_answers:
                self._journal.append(self._failed_entry(*self._unrecorded[0]))
                self._unrecorded.popleft()
        except StorageError:
            self.journal_answers = False
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))

    def _failed_entry(self, record: CheckpointRecord, head: Sequence) -> MakeEntry:
        return failed_entry(record, self._wall_at(record.triggered_at), head)

    def _wall_at(self, monotonic: float) -> datetime:
        return self._clock.wall() - timedelta(seconds=self._clock.monotonic() - monotonic)
