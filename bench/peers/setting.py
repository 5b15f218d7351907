"""What one life of a pipeline is told, and where it leaves what. Passed to the life's process as JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench.peers.pipeline import Query, Shape

JOB = "peers"


class Setting(msgspec.Struct, frozen=True):
    place: str
    query: Query
    shape: Shape
    interval: str = "5s"
    """Between checkpoints, where the system does not take one with every batch."""
    rows_per_second: int = 0
    """0: as many as can be."""
    timeout: str | None = None
    """Of a checkpoint; None: the system's own."""
    worker: bool = False
    """The work is done by a process of its own, that can be killed alone."""
    beside: str | None = None
    """Another place, whose store and output are used: a second deployment of the same job on another machine."""
    full_after: int = 0
    """Take a full checkpoint after so many rows, before the first of the others."""

    @property
    def store(self) -> Path:
        """Spark's checkpoint directory, holdfast's home, Flink's checkpoints."""
        return Path(self.beside or self.place, "store")

    @property
    def local(self) -> Path:
        """What a machine loses with its disk."""
        return Path(self.place, "local")

    @property
    def output(self) -> Path:
        return Path(self.beside or self.place, "output")

    @property
    def log(self) -> Path:
        return Path(self.place, "log.txt")

    @property
    def progress(self) -> Path:
        return Path(self.place, "progress.jsonl")

    def make_folders(self) -> None:
        for folder in (self.store, self.local, self.output):
            folder.mkdir(parents=True, exist_ok=True)


def seconds(duration: str) -> float:
    """Of texts such as 5s and 10ms."""
    return float(duration.removesuffix("ms")) / 1000 if duration.endswith("ms") else float(duration.removesuffix("s"))
