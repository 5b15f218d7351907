"""Puts the plans of a barrier's batches into the work directory, so that its checkpoint holds them.

Never a reason to fail a checkpoint: without them a recovery from an older one takes what it has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.errors import HoldfastError
from holdfast.identifiers import AttemptId, BatchId
from holdfast.job_log import log
from holdfast.plans.packing import drop_packed, pack_plans
from holdfast.repository.journal import Journal
from holdfast.repository.lines import oldest_start
from holdfast.runtime.ports import RunDirectory

_KEPT = 100
"""Spark's own number of batches."""
_PART = 4


class PlanPacker:
    def __init__(
        self,
        *,
        journal: Journal,
        retained: int,
        new_attempt: Callable[[], AttemptId],
        kept: Callable[[], int | None] = lambda: None,
    ) -> None:
        """`retained`: from how many of the newest checkpoints a recovery may begin. `kept`: of how many batches Spark
        keeps what they read, None while that is unknown."""
        self._kept = kept
        self._packed: BatchId | None = None
        """Up to here nothing can be forgotten any more."""
        self._journal = journal
        self._retained = retained
        self._new_attempt = new_attempt
        self._packing = threading.Lock()
        """Two checkpoints may begin at one barrier, and a path of a work directory has one writer at a time."""

    def is_due(self, barrier: BatchId) -> bool:
        """Whether Spark may forget what batches read before the next checkpoint. Called by the loop."""
        if self._packed is None or self._packed > barrier:
            self._packed = barrier
        if barrier - self._packed < max(1, (self._kept() or _KEPT) // _PART):
            return False
        self._packed = barrier
        return True

    def pack(self, directory: RunDirectory, barrier: BatchId, *, alone: bool) -> None:
        """`alone`: no other checkpoint copies the directory, so what nobody needs can be removed."""
        needed_after = oldest_start(self._journal.state, self._retained)
        try:
            with self._packing:
                if alone and needed_after is not None:
                    drop_packed(directory, needed_after)
                pack_plans(directory, barrier, needed_after, self._journal.fencing_epoch, self._new_attempt)
            self._packed = barrier
        except (OSError, HoldfastError) as error:
            log.debug("the checkpoint of batch %s is made without the plans of its batches: %s", barrier, error)
