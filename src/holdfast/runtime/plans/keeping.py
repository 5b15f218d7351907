"""Makes the plan of each batch durable before a writer of the user's own sees the batch.

`keep` is called on Spark's thread while the offsets of the batch are held back. With `prefer` it waits for the home as
long as the store it was given does, and no longer: then the batch goes on, its plan and those after it wait in memory,
an alarm says so, and they are shipped when the home answers again. With `require` the batch waits instead.

A plan in a home that is not proved to be this run's counts as none. A batch that went on without a durable plan may
meet another run's plan of the same batch. That shows when its plan is shipped, or when a recovery finds that the sink
has more than the home has plans of. A run that takes over the directory of such a run ships what that one could not:
later plans would stand behind a gap otherwise. Spark may have deleted what a plan is made of. Then no later one is
shipped, and readers see nothing behind the gap, until a checkpoint holds what the gap holds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Literal

from holdfast.errors import (
    Corrupt,
    Fenced,
    HoldfastError,
    HomeReplaced,
    InvalidSettings,
    StorageError,
    StorageUnreachable,
)
from holdfast.identifiers import AttemptId, BatchId
from holdfast.job_log import log
from holdfast.plans.afterwards import batches_in, plans_of
from holdfast.plans.log import PlanLog, newest_planned, plan_batches
from holdfast.plans.plan import Plan
from holdfast.plans.spark_logs import Directory, SourceLogs, planned
from holdfast.repository.entries import PlansLate
from holdfast.repository.journal import Journal, MakeEntry
from holdfast.repository.lines import line_folder
from holdfast.runtime.clock import Clock
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.ports import Query
from holdfast.runtime.reports.alarms import Alarms
from holdfast.storage.interface import ObjectStore

LATE = "plans_late"
"""The alarm for batches that went on, or wait, without a durable plan."""
CONFLICT = "plans_conflict"
_SHIP_EVERY_S = 2.0
_HOLD_EVERY_S = 1.0
_PROOF_WAITS_S = 3.0
"""For so long ownership is asked for again before a batch that may go on without a proof."""
_LATE_KEPT = 10_000
"""Plans that wait in memory. Should there be more, the oldest go, and are a gap."""
_TIMED = 1_000
"""Batches whose beginning is remembered until they are seen to be committed."""

Mode = Literal["prefer", "require"]
Publish = Literal["checkpoint", "batch"]


class PlannedOtherwise(HoldfastError):
    """Another plan of the batch stands in the home: that one must be run."""


@dataclass(frozen=True)
class _Lowered:
    """Batches that went on without a durable plan."""

    first: BatchId
    last: BatchId
    since: datetime | None
    """None when the first of them went on in an earlier run."""

    def also(self, other: _Lowered) -> _Lowered:
        since = None if self.since is None or other.since is None else min(self.since, other.since)
        return _Lowered(min(self.first, other.first), max(self.last, other.last), since)


@dataclass(frozen=True)
class _Gap:
    """Batches that ran, and of which nobody will make plans any more."""

    first: BatchId
    last: BatchId


class PlanKeeper:
    def __init__(
        self,
        *,
        store: ObjectStore,
        journal: Journal,
        mode: Mode,
        new_attempt: Callable[[], AttemptId],
        alarms: Alarms,
        clock: Clock,
        lanes: Lanes,
        post: Callable[[Callable[[], None]], None],
        sleep: Callable[[float], None],
        readers: int = 1,
    ) -> None:
        """`store` gives up soon: a batch waits for it."""
        self.mode: Mode = mode
        self._store = store
        self._journal = journal
        self._new_attempt = new_attempt
        self._alarms = alarms
        self._clock = clock
        self._lanes = lanes
        self._post = post
        self._sleep = sleep
        self._readers = readers
        self._lock = threading.Lock()
        self._late: deque[tuple[PlanLog, Plan]] = deque(maxlen=_LATE_KEPT)
        self._gap: _Gap | None = None
        """Until a checkpoint holds it."""
        self._lowered: _Lowered | None = None
        """What the journal does not tell yet."""
        self._recording = False
        self._shipping = False
        self._ship_at = 0.0
        self._log: PlanLog | None = None
        self._directory: Directory | None = None
        self._logs: SourceLogs | None = None
        self._let_run: deque[tuple[BatchId, float]] = deque(maxlen=_TIMED)
        """When each of the newest batches was let run."""
        self._disputed = False
        """A batch of this run was planned otherwise by another one: what a repetition would give is not what ran."""
        self.newest: Plan | None = None
        """The newest plan that is known to stand in the home."""

    @property
    def late_since(self) -> BatchId | None:
        """The first batch that went on without a durable plan."""
        with self._lock:
            late = self._late[0][1].batch_id if self._late else None
            return late if self._gap is None or (late is not None and late < self._gap.first) else self._gap.first

    def durable_upto(self, batch: BatchId) -> BatchId | None:
        """The newest batch up to `batch` that would be repeated as it was, with all before it; None for none."""
        if self._disputed:
            return None
        late = self.late_since
        return batch if late is None or late > batch else (BatchId(late - 1) if late > 0 else None)

    def planned_behind(self, batch: BatchId) -> BatchId:
        """The newest batch up to which all behind `batch` have plans; `batch` itself when the home does not answer."""
        try:
            return newest_planned(self._store, line_folder(self._journal.state), batch)
        except StorageError as error:
            log.debug("could not list the plans after batch %s: %s", batch, error.message)
            return batch

    def log(self) -> PlanLog:
        """Of the line that the job is on."""
        return PlanLog(self._store, line_folder(self._journal.state), self._readers)

    def begin(self, directory: Directory, after: BatchId | None) -> None:
        """A query starts there; `after` is the newest batch that is planned in the directory."""
        self._log, self._directory, self._logs = self.log(), directory, SourceLogs(directory, after)

    def keep(self, batch: BatchId, offsets: bytes, cancelled: Callable[[], bool]) -> None:
        """Returns when the batch may run. Raises `Fenced` or `PlannedOtherwise` when it must not, any other
        `HoldfastError` when that cannot be told."""
        assert self._log is not None
        assert self._directory is not None
        assert self._logs is not None
        epoch = self._journal.fencing_epoch
        plan = planned(self._directory, self._logs, batch, offsets, epoch, self._new_attempt())
        self._wait_for_earlier(batch, cancelled)
        standing = self._placed(self._log, plan, cancelled)
        if standing.attempt != plan.attempt:
            raise PlannedOtherwise(
                f"batch {batch} was planned differently by run {standing.fencing_epoch}: that plan is run instead"
            )
        with self._lock:
            self._let_run.append((batch, self._clock.monotonic()))

    def ran_s(self, committed: BatchId) -> float | None:
        """How long the batch, which is now seen to be committed, ran; None when that is unknown. Called by the loop."""
        with self._lock:
            began = dict(self._let_run).get(committed)
        return None if began is None else self._clock.monotonic() - began

    def take_along(self, directory: Directory, barrier: BatchId | None, offsets: bytes) -> Plan:
        """The plan that counts of the batch behind the barrier, which the directory has planned and the home does not
        know: the run before went on without it."""
        batch = BatchId(0 if barrier is None else barrier + 1)
        logs, epoch = SourceLogs(directory, barrier), self._journal.fencing_epoch
        plan = planned(directory, logs, batch, offsets, epoch, self._new_attempt())
        return self._placed(self.log(), plan, None)

    def begin_line(self, plans: Sequence[Plan]) -> None:
        """The plans of batches that are repeated on a line that begins with them: those of the line before are
        deleted.

        A line begins with some only where three things are lost: the newest checkpoint, the plans in it, and the plan
        object of a batch that readers do not see yet. If such a run is killed midway, the plans that only had an object
        of their own are lost to the next start. It then takes the batches after the restored checkpoint back from
        readers, which the entry that began the line explains."""
        for plan in plans:
            self._placed(self.log(), plan, None)

    def ship_left(self, directory: Directory, after: BatchId | None, upto: BatchId) -> None:
        """Make the plans of batches that the directory has run durable, as far as the home lacks them: of those behind
        `after`, the newest checkpoint's. Those that the home does not take now are late."""
        log_of_line, epoch = self.log(), self._journal.fencing_epoch
        known = self._known(log_of_line) | self._late_batches()
        first = 0 if after is None else after + 1
        missing = [batch for batch in map(BatchId, range(first, upto + 1)) if batch not in known]
        if not missing:
            return
        left = frozenset(batches_in(directory, after, upto))
        made = plans_of(directory, tuple(batch for batch in missing if batch in left), epoch, self._new_attempt)
        for batch, plan in zip_longest(missing, made):
            if plan is None or plan.batch_id != batch:
                self._leave_gap(batch, upto)
                break
            standing = self._put(log_of_line, plan, lambda: False)
            if standing is not None and standing.offsets != plan.offsets:
                self._tell_conflict(plan, standing)
                self._leave_gap(batch, upto)
                break
        self._lower(_Lowered(missing[0], missing[-1], None))
        log.info("the previous run could not upload the plans of batches %s to %s", missing[0], missing[-1])

    def _leave_gap(self, first: BatchId, last: BatchId) -> None:
        with self._lock:
            self._gap = _Gap(first, last)
        self._tell(
            f"batch {first} ran without a durable plan, and none can be made any more: until a checkpoint holds batch "
            f"{last}, a lost disk would not be exact, and publish='batch' shows readers no later batch",
            "take a checkpoint now (holdfast checkpoint), or wait for the next one",
        )

    def _give_up_late(self, first: BatchId) -> None:
        with self._lock:  # no batch in between may be taken for one with a durable plan
            last = self._late[-1][1].batch_id
            self._gap = _Gap(first, last)
            self._late.clear()
        self._leave_gap(first, last)

    def _known(self, log_of_line: PlanLog) -> frozenset[BatchId]:
        try:
            return plan_batches(self._store, log_of_line.folder)
        except StorageError as error:
            log.debug("could not find out which plans the home has: %s", error.message)
            return frozenset()

    def _late_batches(self) -> frozenset[BatchId]:
        with self._lock:
            return frozenset(plan.batch_id for _, plan in self._late)

    def _wait_for_earlier(self, batch: BatchId, cancelled: Callable[[], bool]) -> None:
        while self.mode == "require" and (late := self.late_since) is not None:
            if cancelled():
                raise StorageUnreachable(f"batch {batch} waits for the plan of batch {late}, or for a checkpoint")
            self._sleep(_HOLD_EVERY_S)

    def _placed(self, log_of_line: PlanLog, plan: Plan, cancelled: Callable[[], bool] | None) -> Plan:
        """The plan of the batch that counts: this one, or the one that stood there before. This one is late where the
        home does not take it, or is another one than this run's: what stands there is of other batches. With
        `require` the batch waits for the proof until it is `cancelled`, not at all for None."""
        standing = self._put(log_of_line, plan, cancelled or (lambda: False))
        if standing is None:
            return plan
        if standing.fencing_epoch > plan.fencing_epoch:
            raise Fenced(f"run {standing.fencing_epoch} has planned batch {plan.batch_id}: it owns the job now")
        unproved = self._require_owner(cancelled)
        if unproved is None:
            self.newest = standing
            return standing
        if self.mode == "require" or (standing.attempt != plan.attempt and not isinstance(unproved, HomeReplaced)):
            raise unproved
        self._remember(log_of_line, plan, unproved)
        return plan

    def _put(self, log_of_line: PlanLog, plan: Plan, cancelled: Callable[[], bool]) -> Plan | None:
        """The plan that stands, None when it is late: plans become durable in the order of their batches."""
        if self.late_since is not None and (self.mode == "prefer" or self._gap is not None):
            self._remember(log_of_line, plan, None)
            return None
        return self._created(log_of_line, plan, cancelled)

    def _created(self, log_of_line: PlanLog, plan: Plan, cancelled: Callable[[], bool]) -> Plan | None:
        while True:
            try:
                standing = log_of_line.create(plan)
            except StorageError as error:
                if self.mode == "prefer":
                    self._remember(log_of_line, plan, error)
                    return None
                waits = f"batch {plan.batch_id} waits for its plan to be durable: {error.message}"
                self._tell(waits, "make the home answer again; the batch runs then", repeated=True)
                if cancelled():
                    raise
                self._sleep(_HOLD_EVERY_S)
            else:
                if self.mode == "require":
                    self._post(lambda: self._alarms.clear(LATE, "plans are durable again"))
                return standing

    def require_ours(self, plans: Sequence[Plan]) -> None:
        """Raises `Fenced` when a newer run owns the job, as far as its plans or the journal tell: who writes a batch
        for it makes its own writer skip the batch. Raises `StorageError` when the home is another one, or does not
        tell."""
        for plan in plans:
            if plan.fencing_epoch > self._journal.fencing_epoch:
                raise Fenced(f"run {plan.fencing_epoch} has planned batch {plan.batch_id}: it owns the job now")
        if (unproved := self._require_owner()) is not None:
            raise unproved

    def _require_owner(self, cancelled: Callable[[], bool] | None = None) -> StorageError | None:
        """A place may be free because a newer run's plan stood there and is needed no more, or because the home is
        another one. So a run that slept proves that its newest entry still stands in the journal, which that run has
        seen to. The home has just answered, so a proof that fails is asked for again. Without one a batch waits with
        `require` until it is `cancelled`. With `prefer` it goes on, and the answer is why there is no proof."""
        began = self._clock.monotonic()
        while True:
            try:
                self._journal.require_standing()
            except StorageError as error:
                if self.mode == "require" and cancelled is not None:
                    waits = f"the next batch waits for a proof that this run owns the job: {error.message}"
                    self._tell(waits, repeated=True)
                    if cancelled():
                        raise
                elif isinstance(error, HomeReplaced) or self._clock.monotonic() - began > _PROOF_WAITS_S:
                    log.debug("could not check whether this run still owns the job: %s", error.message)
                    return error
                self._sleep(_HOLD_EVERY_S)
            else:
                return None

    def _remember(self, log_of_line: PlanLog, plan: Plan, error: StorageError | None) -> None:
        with self._lock:
            if len(self._late) == _LATE_KEPT:
                dropped = self._late[0][1].batch_id
                self._gap = _Gap(dropped if self._gap is None else self._gap.first, dropped)
            self._late.append((log_of_line, plan))
        self._lower(_Lowered(plan.batch_id, plan.batch_id, self._clock.wall()))
        if error is not None:
            self._tell(
                f"from batch {plan.batch_id} on batches run without a durable plan: a lost disk would not be exact for "
                f"the query's own writer: {error.message}"
            )

    def _lower(self, lowered: _Lowered) -> None:
        with self._lock:
            self._lowered = lowered if self._lowered is None else self._lowered.also(lowered)

    def _tell(
        self,
        message: str,
        hint: str = "make the home answer again; plans='require' lets batches wait for it",
        *,
        repeated: bool = False,
    ) -> None:
        """`repeated`: said again until it is over. The log needs it once."""
        brief = message if repeated else None
        self._post(lambda: self._alarms.raise_alarm(LATE, "warning", message, hint, brief))

    # Called by the loop.

    def poll(self) -> None:
        self._look_at_gap()
        late = self._gap is None and self.late_since is not None
        if late and not self._shipping and self._clock.monotonic() >= self._ship_at:
            self._shipping = True
            self._lanes.submit("plans", self._ship)
        if self.late_since is None and self._lowered is not None and not self._recording:
            self._recording = True
            self._lanes.submit("journal", self._record)

    def _look_at_gap(self) -> None:
        newest = self._journal.state.newest_of_the_line() if self._gap is not None else None
        with self._lock:
            if newest is None or self._gap is None or newest.barrier_batch_id < self._gap.last:
                return
            self._gap = None
            is_over = not self._late
        if is_over:
            self._post(lambda: self._alarms.clear(LATE, "a checkpoint holds every batch without a plan"))

    def _record(self) -> None:
        """On the journal lane: what was lowered is over. When the home does not take it, the next poll tries again."""
        with self._lock:
            lowered, self._lowered = self._lowered, None
        try:
            if lowered is not None:
                self._journal.append(_late_entry(lowered))
        except Fenced as error:
            log.debug("the newer run records the plans that it uploads: %s", error.message)
        except StorageError as error:
            log.debug("could not record yet which batches ran without a durable plan: %s", error.message)
            if lowered is not None and not self._journal.undecided:
                self._lower(lowered)
        finally:
            self._recording = False

    def _ship(self) -> None:
        """A plan is durable when the home proves to be this run's after the plan was put there. Only then the next one
        is put: behind what a newer run has planned, the batches of this run are others (seed 4536)."""
        try:
            while (late := self._next_late()) is not None:
                log_of_line, plan = late
                standing = log_of_line.create(plan)
                if standing.offsets != plan.offsets:
                    self._tell_conflict(plan, standing)
                    self._give_up_late(plan.batch_id)
                    return
                self._journal.require_standing()
                with self._lock:
                    if self._late and self._late[0][1] is plan:
                        self._late.popleft()
                self.newest = standing
            if self.late_since is None:
                self._post(lambda: self._alarms.clear(LATE, "every plan is durable again"))
        except Fenced as error:
            log.debug("no more late plans are uploaded: %s", error.message)
        except StorageError as error:
            log.debug("plans are late: %s", error.message)
        except Corrupt as error:
            self._tell(
                f"the plans of batches cannot be uploaded: {error.message}",
                "restore that object; until then only a checkpoint makes these batches durable",
            )
        finally:
            self._ship_at = self._clock.monotonic() + _SHIP_EVERY_S
            self._shipping = False

    def _next_late(self) -> tuple[PlanLog, Plan] | None:
        with self._lock:
            return None if self._gap is not None or not self._late else self._late[0]

    def _tell_conflict(self, plan: Plan, standing: Plan) -> None:
        self._disputed = True
        message = (
            f"batch {plan.batch_id} ran without a durable plan, and run {standing.fencing_epoch} has planned it "
            "otherwise: the sink of the query's own writer may have rows twice or lack some"
        )
        hint = "compare the sink's rows with the source's, and stop one of the two deployments"
        self._post(lambda: self._alarms.raise_alarm(CONFLICT, "critical", message, hint))


def _late_entry(lowered: _Lowered) -> MakeEntry:
    return lambda stamp: PlansLate(**stamp, first=lowered.first, last=lowered.last, since=lowered.since)


def mode_of(wanted: Literal["prefer", "require", "off"], query: Query, publish: Publish = "checkpoint") -> Mode | None:
    """None when no plans are kept. Raises `InvalidSettings` when they are required and cannot be."""
    if query.sink is None and publish == "batch":
        raise InvalidSettings.of("publish", publish, "applies to holdfast's sinks, and the query has its own writer")
    if wanted == "off" and publish == "batch":
        raise InvalidSettings.of("publish", publish, "needs plans of batches: plans must not be off")
    if wanted == "off" or (query.sink is not None and publish == "checkpoint"):
        return None
    why = query.plans_refusal()
    if why is None:
        return wanted
    if publish == "batch":
        raise InvalidSettings.of("publish", publish, f"needs plans of batches, which cannot be kept: {why}")
    if wanted == "require":
        raise InvalidSettings.of("plans", wanted, f"the plans of batches cannot be kept: {why}")
    log.warning("the plans of batches are not kept, so a start after a lost disk may be refused: %s", why)
    return None
