"""Checkpoints that hold, for PySpark Structured Streaming."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError
from holdfast.settings import Settings
from holdfast.version import VERSION as __version__

if TYPE_CHECKING:
    from holdfast.spark.api import run, start
    from holdfast.spark.running import RunningJob

__all__ = ["HoldfastError", "RunningJob", "Settings", "__version__", "run", "start"]


def __getattr__(name: str) -> Any:
    """PySpark is loaded when it is needed: the commands that only read a home must answer at once."""
    if name in ("run", "start"):
        from holdfast.spark import api

        return getattr(api, name)
    if name == "RunningJob":
        from holdfast.spark.running import RunningJob

        return RunningJob
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
