"""Counts that only rise, from a journal that forgets: folds drop old entries, and a counter must not fall. Pure."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.repository.entries import CheckpointCompleted, CheckpointFailedEntry, QueryRestarted
from holdfast.repository.state import JobState


@dataclass
class Tally:
    """Of one job, since the process that counts began to read its journal; the first reading counts what is in it."""

    upto: int = 0
    completed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    bytes_new: int = 0

    def count(self, state: JobState) -> None:
        for sequence, entry in state.sequences:
            if sequence <= self.upto:
                continue
            match entry:
                case CheckpointFailedEntry(failure=failure):
                    self.failures[failure.reason] += 1
                case QueryRestarted():
                    self.restarts += 1
                case CheckpointCompleted():
                    self._completed(entry)
        self.upto = max(self.upto, state.head)

    def _completed(self, entry: CheckpointCompleted) -> None:
        self.completed += 1
        self.bytes_new += entry.bytes_new
        if (made := entry.requests) is not None:
            self.requests += Counter(put=made.put, get=made.get, list=made.list, delete=made.delete)
