"""What somebody is told who must do something."""

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
    """The same alarm once more, because it is over."""


Receiver = Callable[[Alarm], None]
