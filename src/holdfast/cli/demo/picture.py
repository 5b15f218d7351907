"""Everything observed so far. The acts wait for it to change, the screen draws it."""

from dataclasses import dataclass, field

from holdfast.cli.demo.watching import (
    BatchCommitted,
    EntryAppended,
    HomeReachable,
    LogLine,
    Sight,
    TableChanged,
)
from holdfast.repository.entries import (
    AnyEntry,
    CheckpointCompleted,
    CheckpointFailedEntry,
    QueryRestarted,
    RunEnded,
    RunStarted,
)

FAILED = " failed: "


@dataclass
class Picture:
    batches: list[BatchCommitted] = field(default_factory=list)
    """In the order of their commits; a batch that ran again is in it twice."""
    log_lines: list[LogLine] = field(default_factory=list)
    completed: list[CheckpointCompleted] = field(default_factory=list)
    failed: list[CheckpointFailedEntry] = field(default_factory=list)
    outcomes: str = ""
    """One mark per checkpoint that ended, in the order of the observations."""
    restarts: int = 0
    """Restarts of the query within a run; the demo has none."""
    run: RunStarted | None = None
    ended: RunEnded | None = None
    rows: int = 0
    home_reachable: bool = True

    def add(self, sight: Sight) -> None:
        match sight:
            case BatchCommitted():
                self.batches.append(sight)
            case LogLine():
                self.log_lines.append(sight)
                self.outcomes += "✗" if is_failed_checkpoint(sight) else ""
            case TableChanged(rows=rows):
                self.rows = rows
            case HomeReachable(reachable=reachable):
                self.home_reachable = reachable
            case EntryAppended(entry=entry):
                self._add_entry(entry)

    def _add_entry(self, entry: AnyEntry) -> None:
        match entry:
            case RunStarted():
                self.run = entry
            case RunEnded():
                self.ended = entry
            case CheckpointCompleted():
                self.completed.append(entry)
                self.outcomes += "✓"
            case CheckpointFailedEntry():
                self.failed.append(entry)
            case QueryRestarted():
                self.restarts += 1

    @property
    def newest(self) -> CheckpointCompleted | None:
        return self.completed[-1] if self.completed else None

    @property
    def batch(self) -> int:
        return self.batches[-1].id if self.batches else -1

    @property
    def epoch(self) -> int:
        return self.run.fencing_epoch if self.run else 0

    @property
    def failures_logged(self) -> int:
        return sum(map(is_failed_checkpoint, self.log_lines))


def is_failed_checkpoint(line: LogLine) -> bool:
    return line.level == "WARNING" and line.text.startswith("checkpoint ") and FAILED in line.text
