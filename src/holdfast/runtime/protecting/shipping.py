"""Ships the plan of each batch to the home a moment after Spark has written it.

The batch does not wait: should the disk be lost in that moment, nobody knows what the batch read. And a directory that
was restored cuts batches anew which the home knows from before. Then a new line of batches begins, named in the
journal, so that a batch id means one thing within each line.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.coordination.events import Event, RunFenced
from holdfast.errors import Fenced, StorageError
from holdfast.identifiers import AttemptId, BatchId
from holdfast.job_log import log
from holdfast.plans.afterwards import batches_in, plans_of
from holdfast.plans.log import PlanLog
from holdfast.plans.plan import Plan
from holdfast.plans.query_id import query_id
from holdfast.repository.entries import WentBack
from holdfast.repository.going_back import abandoned_by
from holdfast.repository.journal import Journal
from holdfast.repository.lines import line_folder
from holdfast.runtime.lanes import Lanes
from holdfast.runtime.reports.alarms import Alarms
from holdfast.storage.durable import storage_error
from holdfast.storage.interface import ObjectStore
from holdfast.workdir.interface import WorkDirectory

LATE = "plans_late"
"""The same alarm as for batches of a run that go on without a durable plan."""
_NONE = BatchId(-1)


class PlanShipper:
    def __init__(
        self,
        *,
        files: WorkDirectory,
        store: ObjectStore,
        journal: Journal,
        new_attempt: Callable[[], AttemptId],
        alarms: Alarms,
        lanes: Lanes,
        post: Callable[[Event | Callable[[], None]], None],
    ) -> None:
        """`store` gives up soon."""
        self._files = files
        self._store = store
        self._journal = journal
        self._new_attempt = new_attempt
        self._alarms = alarms
        self._lanes = lanes
        self._post = post
        self._shipping = threading.Lock()
        self._submitted = False
        self._wanted = _NONE
        self.reached = self._newest_checkpoint()
        """The newest batch whose plan stands, or that a checkpoint has."""
        self._late = False
        self._stuck = False
        """What stands in the home cannot be continued."""

    def _newest_checkpoint(self) -> BatchId:
        newest = self._journal.state.newest_of_the_line()
        return _NONE if newest is None else newest.barrier_batch_id

    def planned(self, newest: BatchId) -> None:
        """Called with every look."""
        self._wanted = newest
        if newest > self.reached and not self._submitted and not self._stuck:
            self._submitted = True
            self._lanes.submit("plans", self._ship_in_turn)

    def _ship_in_turn(self) -> None:
        self._submitted = False
        self.ship()

    def ship(self) -> None:
        """All that the directory has planned so far; what the home does not take now is taken with a later call."""
        with self._shipping:
            try:
                self._ship()
            except OSError as error:
                doing = f"read the plans of batches in {self._files.location}"
                self._tell_late(storage_error(doing, error), "make the directory readable again")
            except Fenced as error:
                fenced = RunFenced(error.message, error.by_maintenance)
                self._post(fenced)
            except StorageError as error:
                self._tell_late(error, "make the home answer again")
            else:
                self._clear_late()

    def _ship(self) -> None:
        batches = batches_in(self._files, self.reached if self.reached >= 0 else None, self._wanted)
        epoch = self._journal.fencing_epoch
        plan_log = PlanLog(self._store, line_folder(self._journal.state))
        for plan in plans_of(self._files, batches, epoch, self._new_attempt):
            standing = plan_log.create(plan)
            if standing.fencing_epoch > epoch:
                raise Fenced(f"run {standing.fencing_epoch} has the plan of batch {plan.batch_id}: it owns the job now")
            if not is_same(plan, standing):
                self._stuck = True
                self._lanes.submit("journal", lambda plan=plan: self._begin_line(plan))  # type: ignore[misc]
                return
            self._journal.require_standing()
            self.reached = plan.batch_id
        if batches and batches[-1] > self.reached:
            log.warning("batch %s: its plan cannot be made any more; a checkpoint is needed after it", batches[-1])
            self.reached = batches[-1]

    def _begin_line(self, plan: Plan) -> None:
        """On the journal lane: the directory went back to a checkpoint, and cuts batches anew behind it."""
        state, location = self._journal.state, self._files.location
        before = [entry for entry in state.restorable() if entry.barrier_batch_id < plan.batch_id]
        if not before:
            self._post(lambda: self._tell_disputed(plan))
            return
        chosen, asked = before[0], f"{location} has cut batch {plan.batch_id} anew"
        try:
            self._journal.append(
                lambda stamp: WentBack(
                    **stamp, chosen=chosen.id, abandoned=abandoned_by(state, chosen), asked=asked, published=None
                )
            )
        except Fenced as error:
            self._post(RunFenced(error.message, error.by_maintenance))
            return
        except StorageError as error:
            log.warning("could not begin a new line of batches, retrying: %s", error.message)
        else:
            log.warning(
                "%s: from there on batch ids mean other rows than before; a new line of batches begins after "
                "checkpoint %s, at batch %s",
                asked,
                chosen.id,
                chosen.barrier_batch_id,
            )
            self.reached = chosen.barrier_batch_id
        self._stuck = False

    def _tell_disputed(self, plan: Plan) -> None:
        message = (
            f"batch {plan.batch_id} in {self._files.location} is not the one that the home knows, and there is no "
            "checkpoint before it: the plans of this and later batches are not kept"
        )
        self._alarms.raise_alarm(LATE, "critical", message, "protect the directory under a name of its own: --job NAME")

    def _tell_late(self, error: StorageError, how: str) -> None:
        self._late = True
        message = f"the plans of batches after {self.reached} are not in the home yet: {error.message}"
        hint = f"{how}; until then a lost disk takes what these batches read with it"
        self._post(lambda: self._alarms.raise_alarm(LATE, "warning", message, hint))

    def _clear_late(self) -> None:
        if self._late:
            self._late = False
            self._post(lambda: self._alarms.clear(LATE, "every plan is in the home again"))


def is_same(plan: Plan, standing: Plan) -> bool:
    """Whether both read the same input. Who planned it, and when it was shipped, does not matter."""
    return (plan.offsets, plan.sources, query_id(plan.metadata)) == (
        standing.offsets,
        standing.sources,
        query_id(standing.metadata),
    )
