"""Where the time of a start goes, from the start of the process to the end of the first batch.

The start names its phases itself (`job_log.phase`); this writes down when they began and ended.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

FIRST_BATCH = "first batch"
"""Begins when the query has started, and ends when the loop sees the commit."""


@dataclass(frozen=True)
class PhaseSpan:
    phase: str
    began_s: float
    """Since the process started."""
    took_s: float


class StartProfile:
    """From any thread."""

    def __init__(self, monotonic: Callable[[], float], age_s: float) -> None:
        """`age_s`: how old the process is now."""
        self._now = monotonic
        self._zero = monotonic() - age_s
        self._changing = threading.Lock()
        self._begun: dict[str, float] = {}
        self._spans: list[PhaseSpan] = []
        self._age_s = age_s
        self.complete = threading.Event()
        """The first batch has ended, or there will be none."""

    def phased(self, name: str, begins: bool) -> None:
        now = self._now() - self._zero
        with self._changing:
            if self.complete.is_set():
                return
            if begins:
                self._begun[name] = now
            elif (began := self._begun.pop(name, None)) is not None:
                self._spans.append(PhaseSpan(name, began, now - began))
                if name == FIRST_BATCH:
                    self.complete.set()

    def phased_before(self, name: str) -> None:
        """What this process did until now."""
        with self._changing:
            self._spans.append(PhaseSpan(name, 0.0, self._age_s))

    @property
    def spans(self) -> tuple[PhaseSpan, ...]:
        """Those that have ended, by their beginning."""
        with self._changing:
            return tuple(sorted(self._spans, key=lambda span: span.began_s))
