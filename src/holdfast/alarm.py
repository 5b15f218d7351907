"""What is sent to the people who must act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from holdfast.finding import Severity


@dataclass(frozen=True)
class Alarm:
    job: str
    code: str
    severity: Severity
    message: str
    hint: str
    at: datetime
    cleared: bool = False
    """True when the same alarm is sent again because it is cleared."""


Receiver = Callable[[Alarm], None]
