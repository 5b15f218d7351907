"""Which Java runs Spark."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def java() -> str | None:
    """The same one that Spark uses."""
    if home := os.environ.get("JAVA_HOME"):
        return shutil.which(str(Path(home) / "bin" / "java"))
    return shutil.which("java")
