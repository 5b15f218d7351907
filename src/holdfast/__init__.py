"""Backs up a running PySpark Structured Streaming query, and restores its state and output together.

The public names. Imports PySpark only when something that needs it is asked for. Never decides anything.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which would be imported first
if TYPE_CHECKING:
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
    from holdfast.home import Checkpoints, Home, Job, open
    from holdfast.runtime.reports.status import JobStatus
    from holdfast.settings import Settings
    from holdfast.spark.api import run, start
    from holdfast.spark.running import RunningJob
    from holdfast.version import VERSION as __version__

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


_ELSEWHERE = {
    "Alarm": "holdfast.alarm",
    "Checkpoints": "holdfast.home",
    "Home": "holdfast.home",
    "Job": "holdfast.home",
    "JobStatus": "holdfast.runtime.reports.status",
    "RunningJob": "holdfast.spark.running",
    "Settings": "holdfast.settings",
    "__version__": "holdfast.version",
    "open": "holdfast.home",
    "run": "holdfast.spark.api",
    "start": "holdfast.spark.api",
}
"""Where the names are that are no errors."""


def __getattr__(name: str) -> object:
    """Everything is loaded when it is used: programs that only read a home start quickly, and the command hears a
    signal from its first instruction on."""
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    from importlib import import_module

    try:
        module = import_module(_ELSEWHERE.get(name, "holdfast.errors"))
    except ModuleNotFoundError as error:
        if error.name not in ("pyspark", "py4j"):
            raise
        from holdfast.errors import InvalidSettings

        raise InvalidSettings(f"could not load PySpark: {error}", hint="pip install 'holdfast-spark[spark]'") from error
    return getattr(module, "VERSION" if name == "__version__" else name)


def __dir__() -> list[str]:
    """What a notebook completes."""
    return [*__all__, *globals()]
