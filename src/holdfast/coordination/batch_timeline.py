"""One timeline of batches: which batch is committed, and which is in a completed checkpoint.

It ends when the work directory is abandoned; the query then continues on another one.
"""

from holdfast.identifiers import BatchId, CheckpointId


class BatchTimeline:
    def __init__(self, durable_id: CheckpointId | None) -> None:
        self.barrier: BatchId | None = None
        """The newest committed batch."""
        self._durable: BatchId | None = None
        self.durable_id = durable_id
        """The newest completed checkpoint that can be read, `_durable` its barrier."""

    @property
    def nothing_new(self) -> bool:
        """Every committed batch is in a completed checkpoint that can be read."""
        if self.barrier is None or self._durable is None or self.durable_id is None:
            return False
        return self.barrier <= self._durable

    def begin(self, durable: BatchId | None, durable_id: CheckpointId | None) -> None:
        self.barrier = None
        self._durable, self.durable_id = durable, durable_id

    def end(self) -> None:
        self.barrier = None

    def reach(self, batch: BatchId) -> bool:
        """False when this batch was already reached."""
        if self.barrier is not None and batch <= self.barrier:
            return False
        self.barrier = batch
        return True

    def complete(self, barrier: BatchId, id: CheckpointId) -> None:
        if self._durable is None or self.durable_id is None or barrier > self._durable:
            self._durable, self.durable_id = barrier, id

    def damage(self, id: CheckpointId) -> None:
        """Its batches are no longer durable: another checkpoint is due even if no batch was committed since."""
        if id == self.durable_id:
            self._durable = self.durable_id = None
