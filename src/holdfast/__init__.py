"""Checkpoints that hold, for PySpark Structured Streaming.

The public names. Imports PySpark only when `run` or `start` is asked for. Never decides anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.alarm import Alarm
from holdfast.errors import (
    CheckpointFailed,
    Conflict,
    Corrupt,
    DamagedJournal,
    Fenced,
    FencedByMaintenance,
    HoldfastError,
    HomeReplaced,
    Incompatible,
    InvalidKey,
    InvalidSettings,
    JobFailed,
    NewerFormat,
    NotFound,
    ObjectNotFound,
    OutcomeUnknown,
    OwnedByAnotherRun,
    StopOverdue,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageNotThere,
    StorageThrottled,
    StorageUnreachable,
)
from holdfast.settings import Settings
from holdfast.version import VERSION as __version__

if TYPE_CHECKING:
    from holdfast.spark.api import run, start
    from holdfast.spark.running import RunningJob

__all__ = [
    "Alarm",
    "CheckpointFailed",
    "Conflict",
    "Corrupt",
    "DamagedJournal",
    "Fenced",
    "FencedByMaintenance",
    "HoldfastError",
    "HomeReplaced",
    "Incompatible",
    "InvalidKey",
    "InvalidSettings",
    "JobFailed",
    "NewerFormat",
    "NotFound",
    "ObjectNotFound",
    "OutcomeUnknown",
    "OwnedByAnotherRun",
    "RunningJob",
    "Settings",
    "StopOverdue",
    "StorageDenied",
    "StorageError",
    "StorageFull",
    "StorageNotThere",
    "StorageThrottled",
    "StorageUnreachable",
    "__version__",
    "run",
    "start",
]


def __getattr__(name: str) -> Any:
    """PySpark is loaded when it is needed, so that commands that only read a home start quickly."""
    if name not in ("run", "start", "RunningJob"):
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    try:
        from holdfast.spark import api, running
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise InvalidSettings(f"could not load PySpark: {error}", hint="pip install 'holdfast-spark[spark]'") from error
    return getattr(running if name == "RunningJob" else api, name)
