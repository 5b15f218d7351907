"""Requirements of a command that Python's packaging cannot install, or may not have installed."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.spark.user_name import require_a_name

_LEAST_JAVA = 17
_HINT = "install one, e.g. apt-get install openjdk-17-jre-headless, or point JAVA_HOME at one"


def require_java_and_packages(purpose: str, packages: Mapping[str, str]) -> None:
    """Called first: without it, a missing Java would show as a stack trace of Spark a few seconds later.

    `packages`: each with the extra of holdfast that installs it.
    """
    _require_java(purpose)
    require_a_name()
    for package, extra in packages.items():
        if importlib.util.find_spec(package) is None:
            raise HoldfastError(
                f"could not {purpose}: the package {package} is not installed",
                hint=f"pip install 'holdfast-spark[{extra}]'",
            )


def _require_java(purpose: str) -> None:
    java = _java()
    if java is None:
        raise HoldfastError(
            f"could not {purpose}: Spark needs Java {_LEAST_JAVA} or newer, and no java was found", hint=_HINT
        )
    version = _java_version(java)
    if version is None or version < _LEAST_JAVA:
        found = "does not print its version" if version is None else f"is version {version}"
        raise HoldfastError(
            f"could not {purpose}: Spark needs Java {_LEAST_JAVA} or newer, and {java} {found}", hint=_HINT
        )


def _java() -> str | None:
    """The same one that Spark uses."""
    if home := os.environ.get("JAVA_HOME"):
        return shutil.which(str(Path(home) / "bin" / "java"))
    return shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None
