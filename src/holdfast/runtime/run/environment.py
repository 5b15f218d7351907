"""What a run depends on besides its settings; the simulation provides its own."""

import random
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from holdfast.alarm import Receiver
from holdfast.identifiers import AttemptId
from holdfast.job_log import log
from holdfast.repository.entries import Process
from holdfast.repository.journal import READERS
from holdfast.repository.ownership import current_process
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.ownership.ownership_watch import Beats, beating_in_a_thread
from holdfast.runtime.reports.alarms import AtOnce, Delivery
from holdfast.runtime.reports.posting import delivery_to
from holdfast.sinks.protocol import Step, no_step


@dataclass(frozen=True)
class Environment:
    clock: Clock
    process: Process
    new_attempt: Callable[[], AttemptId]
    jitter: Callable[[], float]
    step: Step
    readers: int = READERS
    """Threads that read the journal and the manifests at start; 1 for only the caller's."""
    beating: Callable[[Beats, float], AbstractContextManager[None]] = lambda watch, interval: nullcontext()
    """Keeps the heartbeat going until the loop runs."""
    deliver: Callable[[Receiver], Delivery] = AtOnce
    """How alarms reach their receivers."""
    sleep: Callable[[float], None] = time.sleep  # noqa: TID251
    """Between two checks of another run's heartbeat."""
    alive: Callable[[], None] = lambda: None
    """Called repeatedly while the thread that decides makes progress. Must not block."""
    report: Callable[[str], None] = log.info
    """Called with what the start waits for."""

    @classmethod
    def real(cls, step: Step = no_step, identity: str | None = None) -> "Environment":
        around = cls(SystemClock(), current_process(identity), _new_attempt, random.random, step)  # noqa: TID251
        return replace(around, beating=beating_in_a_thread, deliver=delivery_to)


def _new_attempt() -> AttemptId:
    return AttemptId(uuid.uuid4().hex)  # noqa: TID251
