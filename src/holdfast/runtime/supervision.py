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


# The query is another one than the directory's. No restart helps, and the directory is not to blame.
_INCOMPATIBLE = re.compile(
    r"STATE_STORE_(KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_INVALID_(VALUE_SCHEMA_EVOLUTION|CONFIG_AFTER_RESTART)"
    r"|STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE|STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE"
    r"|STATE_STORE_(VALUE_SCHEMA_EVOLUTION|STATE_SCHEMA_FILES)_THRESHOLD_EXCEEDED"
    r"|STREAMING_STATEFUL_OPERATOR_(NOT_MATCH_IN_STATE_METADATA|MISSING_STATE_DIRECTORY)"
    r"|STREAMING_QUERY_EVOLUTION_ERROR|sources in the checkpoint offsets and now there are"
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
    incompatible: bool = False
    """The query does not fit its checkpoint."""


GONE = "Spark is gone"
"""How a death begins that no restart within this process can mend."""


class Supervision:
    """Growing delay, reset by progress; gives up after `attempts` restarts without a completed batch in between."""

    def __init__(self, delay: float, attempts: int) -> None:
        self._delay = delay
        self._attempts = attempts
        self.restarts = 0
        self.overridden = False
        """The query was started although it differs from its checkpoint, and has not completed a batch yet."""

    def progressed(self) -> None:
        self.restarts = 0
        self.overridden = False

    def died(self, why: str, now: float) -> Restart | GiveUp:
        if why.startswith(GONE):
            return GiveUp(f"{why}; only a new process can start it again")
        unreadable = bool(_UNREADABLE.search(why))
        if _INCOMPATIBLE.search(why) or (unreadable and self.overridden):
            return GiveUp(f"Spark could not go on with this query: {why}", incompatible=True)
        if self.restarts >= self._attempts:
            return GiveUp(f"the query died {self.restarts + 1} times without completing a batch; the last time: {why}")
        delay = min(self._delay * 2.0 ** min(self.restarts, 30), _LONGEST_DELAY_S)
        self.restarts += 1
        return Restart(now + delay, unreadable, "state unreadable" if unreadable else "query failed")
