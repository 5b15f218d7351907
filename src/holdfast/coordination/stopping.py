"""The bookkeeping of a clean stop: one last checkpoint, tried a few times, then the end."""

from dataclasses import dataclass

from holdfast.coordination.rules import Rules
from holdfast.identifiers import RequestId


@dataclass
class Stopping:
    requests: tuple[RequestId, ...]
    savepoint: str | None
    """Still to be made, under this name."""
    asked_at: float
    tries: int = 0
    not_before: float = 0.0

    def exhausted(self, rules: Rules, now: float) -> bool:
        """No further last checkpoint is worth it. The first one always is."""
        return self.tries >= rules.final_tries or (self.tries > 0 and now >= self.asked_at + rules.final_patience)

    def tried(self, rules: Rules, now: float) -> None:
        self.tries += 1
        self.not_before = now + rules.shard_backoff(self.tries)
