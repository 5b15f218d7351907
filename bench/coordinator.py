"""The coordinator alone, on one core: what an acknowledgement costs, and whether memory grows.

Times are processor time of this process, so that a shared machine does not spoil them.
"""

from __future__ import annotations

import gc
import time
import tracemalloc

from rich.console import Console

from holdfast.coordination.commands import BeginCheckpoint
from holdfast.coordination.coordinator import Coordinator
from holdfast.coordination.events import (
    BarrierReached,
    CheckpointBegun,
    CheckpointSealed,
    OutputPublished,
    QueryStarted,
    ShardAcknowledged,
    SnapshotPlanned,
)
from holdfast.coordination.limits import Limits
from holdfast.identifiers import BatchId, CheckpointId, ShardId, Ticket

Row = tuple[str, str]

PROMISED_PER_SECOND = 100_000


class _Job:
    """A job whose every checkpoint goes well."""

    def __init__(self, shards: int) -> None:
        self.shards = tuple(ShardId(f"state/0/{number}") for number in range(shards))
        self.coordinator = Coordinator(Limits(interval=1.0, timeout=600.0, jitter=0.0), 0.0)
        self.coordinator.receive(QueryStarted(replaced=True), 0.0)
        self.taken = 0

    def checkpoint(self) -> float:
        """One checkpoint; the seconds that its acknowledgements took."""
        batch, now = BatchId(self.taken), 10.0 * (self.taken + 1)
        self.taken += 1
        ticket = self._begin(batch, now)
        messages = [ShardAcknowledged(ticket, shard, 4096, 128, 3, 1) for shard in self.shards]
        receive = self.coordinator.receive
        begun = time.process_time()
        for message in messages:
            receive(message, now)
        taken = time.process_time() - begun
        receive(CheckpointSealed(ticket), now)
        receive(OutputPublished(batch), now)
        assert self.coordinator.history.statistics.completed == self.taken
        return taken

    def _begin(self, batch: BatchId, now: float) -> Ticket:
        commands = self.coordinator.receive(BarrierReached(batch), now)
        ticket = next(command.ticket for command in commands if isinstance(command, BeginCheckpoint))
        self.coordinator.receive(CheckpointBegun(ticket, CheckpointId(self.taken)), now)
        self.coordinator.receive(SnapshotPlanned(ticket, self.shards), now)
        return ticket


def per_second(shards: int, checkpoints: int) -> float:
    """Acknowledgements per second."""
    job = _Job(shards)
    job.checkpoint()
    return shards * checkpoints / sum(job.checkpoint() for _ in range(checkpoints))


def kilobytes_grown(checkpoints: int, shards: int = 10) -> float:
    """By how much memory grew between the first tenth and the end."""
    job = _Job(shards)
    tracemalloc.start()
    try:
        early = _kilobytes_after(job, checkpoints // 10)
        return _kilobytes_after(job, checkpoints - checkpoints // 10) - early
    finally:
        tracemalloc.stop()


def _kilobytes_after(job: _Job, checkpoints: int) -> float:
    for _ in range(checkpoints):
        job.checkpoint()
    gc.collect()
    return tracemalloc.get_traced_memory()[0] / 1024


def measure(quick: bool = False) -> list[Row]:
    many = 10 if quick else 100
    rows = [("acknowledgements/s, 10,000 shards", f"{per_second(10_000, many):,.0f}")]
    for shards, checkpoints in ((1_000, many), (10_000, many // 5), (100_000, max(1, many // 20))):
        cost = 1e6 / per_second(shards, checkpoints)
        rows.append((f"microseconds per acknowledgement, {shards:,} shards", f"{cost:.2f}"))
    checkpoints = 1_000 if quick else 10_000
    rows.append((f"memory grown over {checkpoints:,} checkpoints, kB", f"{kilobytes_grown(checkpoints):.0f}"))
    return rows


def main(quick: bool = False) -> list[Row]:
    """What `python -m bench` shows."""
    promised = (
        f"at least {PROMISED_PER_SECOND:,} acknowledgements/s, the same cost for any number of shards, memory flat"
    )
    return [*measure(quick), ("coordinator alone, one core; promised:", promised)]


if __name__ == "__main__":
    for row in main():
        Console().print(*row)
