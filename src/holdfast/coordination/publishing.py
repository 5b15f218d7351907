"""When to publish: always up to the newest barrier that is completed or released, one publication at a time, repeated
until it works."""

from holdfast.coordination.commands import ClearAlarm, Command, PublishOutput, RaiseAlarm
from holdfast.coordination.limits import Limits
from holdfast.identifiers import BatchId

PUBLISH_FAILING = "publish_failing"


class Publishing:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._wanted: BatchId | None = None
        self._done: BatchId | None = None
        self._asked: BatchId | None = None
        """The publication in progress."""
        self._retry_at: float | None = None
        self._suspended = False
        self.failures = 0
        self.message = ""

    @property
    def idle(self) -> bool:
        """Everything that may be published is published, or is left to recovery."""
        return self._suspended or (self._asked is None and self._wanted == self._done)

    def suspend(self) -> None:
        """The work directory is abandoned. Recovery decides what is published next: it may rewind the sink."""
        self._suspended = True
        self._retry_at = None

    def restart(self, published: BatchId | None) -> None:
        """The query resumed at `published`, and recovery has published or rewound the sink to exactly that."""
        self._wanted = self._done = published
        self._asked = self._retry_at = None
        self._suspended = False

    def want(self, upto: BatchId) -> list[Command]:
        if self._wanted is None or upto > self._wanted:
            self._wanted = upto
        return self._ask() if self._retry_at is None else []

    def published(self, upto: BatchId) -> list[Command]:
        if upto != self._asked:
            return []
        self._asked, self._done = None, upto
        cleared = self.failures >= self._limits.publish_alarm_after
        self.failures = 0
        commands: list[Command] = [ClearAlarm(PUBLISH_FAILING, f"published up to batch {upto}")] if cleared else []
        return commands + self._ask()

    def failed(self, upto: BatchId, message: str, now: float) -> list[Command]:
        if upto != self._asked:
            return []
        self._asked, self.message = None, message
        self.failures += 1
        if not self._suspended:
            self._retry_at = now + self._limits.publish_backoff(self.failures)
        if self.failures != self._limits.publish_alarm_after:
            return []
        hint = "check the sink; nothing is lost: the output is staged and will be published when the sink works again"
        return [RaiseAlarm(PUBLISH_FAILING, "critical", f"publishing up to batch {upto} fails: {message}", hint)]

    def due(self, now: float) -> list[Command]:
        if self._retry_at is None or now < self._retry_at:
            return []
        self._retry_at = None
        return self._ask()

    def next_deadline(self) -> float:
        return self._retry_at if self._retry_at is not None else float("inf")

    def _ask(self) -> list[Command]:
        if self._suspended or self._asked is not None or self._wanted is None or self._wanted == self._done:
            return []
        self._asked = self._wanted
        return [PublishOutput(self._wanted)]
