"""What to do when the query dies. Pure."""

import re
from dataclasses import dataclass

_LONGEST_DELAY_S = 60.0

# State or logs in the work directory that Spark cannot read; restarting on the same directory cannot help.
_UNREADABLE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|bad table magic number|Corruption:|ChecksumException|checksum (mismatch|verification)"
    r"|STATE_STORE_(CHECKPOINT|INVALID|KEY_ROW_FORMAT|VALUE_ROW_FORMAT)|Incomplete log file|Malformed log file"
    r"|MISSING_METADATA_FILE|delta file .* does not exist|Error reading (delta|snapshot) file"
    r"|/state/\S+ (\(No such file|does not exist)|RocksDBException: (IO error: )?.*No such file",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Restart:
    at: float
    elsewhere: bool
    """The work directory is unreadable: resume from the next candidate instead."""
    cause: str


@dataclass(frozen=True)
class GiveUp:
    message: str


GONE = "Spark is gone"
"""How a death begins that no restart within this process can mend."""


class Supervision:
    """Growing delay, reset by progress; gives up after `attempts` restarts without a completed batch in between."""

    def __init__(self, delay: float, attempts: int) -> None:
        self._delay = delay
        self._attempts = attempts
        self.restarts = 0

    def progressed(self) -> None:
        self.restarts = 0

    def died(self, why: str, now: float) -> Restart | GiveUp:
        if why.startswith(GONE):
            return GiveUp(f"{why}; only a new process can start it again")
        if self.restarts >= self._attempts:
            return GiveUp(f"the query died {self.restarts + 1} times without completing a batch; the last time: {why}")
        delay = min(self._delay * 2.0 ** min(self.restarts, 30), _LONGEST_DELAY_S)
        self.restarts += 1
        unreadable = bool(_UNREADABLE.search(why))
        return Restart(now + delay, unreadable, "state unreadable" if unreadable else "query failed")
