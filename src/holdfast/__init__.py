"""Backs up a running PySpark Structured Streaming query, and restores its state and output together.

The public names. Imports PySpark only when something that needs it is asked for. Never decides anything.
"""

from __future__ import annotations

from importlib import import_module
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
    from holdfast.home import Checkpoints, Home, Job, open
    from holdfast.runtime.reports.status import JobStatus
    from holdfast.spark.api import run, start
    from holdfast.spark.running import RunningJob

__all__ = [
    "Alarm",
    "CheckpointFailed",
    "Checkpoints",
    "Conflict",
    "Corrupt",
    "DamagedJournal",
    "Fenced",
    "FencedByMaintenance",
    "HoldfastError",
    "Home",
    "HomeReplaced",
    "Incompatible",
    "InvalidKey",
    "InvalidSettings",
    "Job",
    "JobFailed",
    "JobStatus",
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
    "open",
    "run",
    "start",
]


_LOADED_WHEN_USED = {
    "Checkpoints": "holdfast.home",
    "Home": "holdfast.home",
    "Job": "holdfast.home",
    "JobStatus": "holdfast.runtime.reports.status",
    "RunningJob": "holdfast.spark.running",
    "open": "holdfast.home",
    "run": "holdfast.spark.api",
    "start": "holdfast.spark.api",
}


def __getattr__(name: str) -> Any:
    """PySpark is loaded when it is needed, so that programs that only read a home start quickly."""
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    try:
        module = import_module(_LOADED_WHEN_USED[name])
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        raise InvalidSettings(f"could not load PySpark: {error}", hint="pip install 'holdfast-spark[spark]'") from error
    return getattr(module, name)
