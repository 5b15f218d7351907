"""What is sent to the people who must act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.finding import Severity

Change = Literal["began", "worse", "again", "over"]
"""`worse`: it has become critical. `again`: the same alarm with a newer text, for example a higher count."""


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
    change: Change = "began"
    since: datetime | None = None
    """When it began; None where that is `at`."""
    home: str = ""
    """Empty where it is unknown."""


Receiver = Callable[[Alarm], None]
