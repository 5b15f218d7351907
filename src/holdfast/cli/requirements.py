"""Requirements of a command that Python's packaging cannot install, or may not have installed."""

import importlib.util
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.spark.java import java
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
    found = java()
    if found is None:
        raise HoldfastError(
            f"could not {purpose}: Spark needs Java {_LEAST_JAVA} or newer, and no java was found", hint=_HINT
        )
    version = _java_version(found)
    if version is None or version < _LEAST_JAVA:
        shown = "does not print its version" if version is None else f"is version {version}"
        raise HoldfastError(
            f"could not {purpose}: Spark needs Java {_LEAST_JAVA} or newer, and {found} {shown}", hint=_HINT
        )


def _java_version(program: str) -> int | None:
    if (told := _told_by_files(program)) is not None:
        return told
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match[1]) if match else None


def _told_by_files(program: str) -> int | None:
    """Starting Java only to ask takes a fifth of a second."""
    try:
        release = Path(program).resolve().parents[1].joinpath("release").read_text()
    except (OSError, IndexError):
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    return int(match[1]) if match else None
