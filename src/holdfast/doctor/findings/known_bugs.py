"""Bugs of Flink that delay or lose checkpoints, by affected release. Checked against the tags of its repository."""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KnownBug:
    issue: str
    effect: str
    since: Version
    fixed: tuple[Version, ...]
    """The first release with the fix, of each line that got it, oldest first."""

    def affects(self, version: Version) -> bool:
        if version < self.since or version >= self.fixed[-1]:
            return False
        same_line = [fixed for fixed in self.fixed if fixed[:2] == version[:2]]
        return version < same_line[0] if same_line else version < self.fixed[-1]

    @property
    def release(self) -> str:
        return ".".join(map(str, self.fixed[-1]))


BUGS = (
    KnownBug(
        "FLINK-33693",
        "forced aligned barriers do not overtake data when aligned checkpoints may time out to unaligned ones",
        (1, 16, 0),
        ((1, 18, 1), (1, 19, 0)),
    ),
    KnownBug(
        "FLINK-22638",
        "a channel is unblocked too early when an aligned checkpoint times out to an unaligned one",
        (1, 13, 0),
        ((1, 13, 1), (1, 14, 0)),
    ),
    KnownBug(
        "FLINK-19401",
        "the JobManager is blocked by reading checkpoints repeatedly during restarts",
        (1, 0, 0),
        ((1, 10, 3), (1, 11, 3), (1, 12, 0)),
    ),
    KnownBug(
        "FLINK-17351",
        "expired checkpoints are not counted as failures, so a job runs for ever without a checkpoint",
        (1, 9, 0),
        ((1, 11, 0),),
    ),
    KnownBug(
        "FLINK-13226",
        "the Kafka producer and the commit of its transaction can wait for each other for ever",
        (1, 4, 0),
        ((1, 9, 0),),
    ),
)


def bugs_of(version: Version | None) -> list[KnownBug]:
    return [] if version is None else [bug for bug in BUGS if bug.affects(version)]
