"""Puts the plans of a barrier's batches into the work directory, so that its checkpoint holds them.

Never a reason to fail a checkpoint: without them a recovery from an older one takes what it has.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import HoldfastError
from holdfast.identifiers import AttemptId, BatchId
from holdfast.job_log import log
from holdfast.plans.packing import drop_packed, pack_plans
from holdfast.repository.journal import Journal
from holdfast.repository.lines import oldest_start
from holdfast.runtime.ports import RunDirectory


class PlanPacker:
    def __init__(self, *, journal: Journal, retained: int, new_attempt: Callable[[], AttemptId]) -> None:
        """`retained`: from how many of the newest checkpoints a recovery may begin."""
        self._journal = journal
        self._retained = retained
        self._new_attempt = new_attempt

    def pack(self, directory: RunDirectory, barrier: BatchId, *, alone: bool) -> None:
        """`alone`: no other checkpoint copies the directory, so what nobody needs can be removed."""
        needed_after = oldest_start(self._journal.state, self._retained)
        try:
            if alone and needed_after is not None:
                drop_packed(directory, needed_after)
            pack_plans(directory, barrier, needed_after, self._journal.fencing_epoch, self._new_attempt)
        except (OSError, HoldfastError) as error:
            log.debug("the checkpoint of batch %s is made without the plans of its batches: %s", barrier, error)
