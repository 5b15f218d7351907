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
        self._reached: BatchId | None = None
        """The barrier of the newest completed checkpoint, damaged or not."""

    @property
    def nothing_new(self) -> bool:
        """Every committed batch is in a completed checkpoint that can be read."""
        if self.barrier is None or self._durable is None or self.durable_id is None:
            return False
        return self.barrier <= self._durable

    def behind(self, barrier: BatchId | None = None) -> int:
        """How many committed batches are in no completed checkpoint, and after `barrier`. A damaged checkpoint counts,
        too: how many batches came between it and an older one is not known here."""
        if self.barrier is None:
            return 0
        reached = max((batch for batch in (self._reached, barrier) if batch is not None), default=-1)
        return max(0, self.barrier - reached)

    def between(self, barrier: BatchId) -> int | None:
        """How many batches a checkpoint at `barrier` has that the newest completed one lacks, damaged or not; None
        when there is none."""
        return None if self._reached is None else max(0, barrier - self._reached)

    def begin(self, durable: BatchId | None, durable_id: CheckpointId | None) -> None:
        self.barrier = None
        self._durable, self.durable_id = durable, durable_id
        self._reached = durable

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
        self._reached = barrier if self._reached is None else max(self._reached, barrier)

    def damage(self, id: CheckpointId) -> None:
        """Its batches are no longer durable: another checkpoint is due even if no batch was committed since."""
        if id == self.durable_id:
            self._durable = self.durable_id = None
