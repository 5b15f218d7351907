"""A file of loaded classes, which Spark's JVM maps at its start instead of loading each class from a jar.

The JVM writes it at the end of a short life of Spark, and uses it only with the same Java and the same jars at the
same place. It aborts when the file is cut off: hence the size in the file's name. It checks the sums of the rest.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.spark.java import java
from holdfast.spark.started_processes import none_left_behind
from holdfast.storage.durable import flush

_FOLDER = "holdfast-classes"
_MAKING = ".making-"
_VARIABLE = "SPARK_SUBMIT_OPTS"
"""Spark's launcher passes it to the driver's JVM only, in front of the user's own options, which win."""
_QUIET = "-Xlog:disable -Xlog:all=off"
"""While it is made: the JVM names each of some thousand classes that cannot be in it."""


def usable_archive(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Whole, and made in this environment by this Java; whether jars have changed since is for the JVM to find out."""
    name = _name()
    for folder in _folders(environment):
        for found in sorted(folder.glob(f"{name}-*.jsa")):
            with suppress(OSError):
                if found.name == _full_name(name, found.stat().st_size):
                    return found
    return None


@contextmanager
def sharing_classes(environment: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """A JVM that is started in the block maps the archive, if there is one."""
    archive, before = usable_archive(environment), environment.get(_VARIABLE)
    if archive is None:
        yield
        return
    shared = _options(archive)
    environment[_VARIABLE] = f"{shared} {before}" if before else shared
    try:
        yield
    finally:
        if before is None:
            del environment[_VARIABLE]
        else:
            environment[_VARIABLE] = before


def make_archive() -> Path:
    """Runs Spark for half a minute. An archive of before is replaced."""
    name = _name()
    folder = next((each for each in _folders(os.environ) if _is_writable(each)), None)
    if folder is None:
        places = " or ".join(str(each.parent) for each in _folders(os.environ))
        raise HoldfastError(f"could not keep Spark's classes: {places} cannot be written", hint="run it as their owner")
    _remove_left(folder)
    with tempfile.TemporaryDirectory(prefix=f"{_MAKING}{os.getpid()}-", dir=folder) as place, none_left_behind():
        part = Path(place) / "classes.jsa"
        making = f'-XX:ArchiveClassesAtExit="{part}" {_QUIET}'
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, _VARIABLE: making}
        said = _live(environment, Path(place))
        if not part.exists():
            raise HoldfastError(
                f"could not keep Spark's classes: Java wrote no file: {said or 'it said nothing'}",
                hint="this needs Java 17 or newer, and room for 200 MB",
            )
        _require_mapped(part, environment)
        part.chmod(0o644)
        flush(part)
        made = folder / _full_name(name, part.stat().st_size)
        part.replace(made)
    for other in folder.glob(f"{name}-*.jsa"):
        if other != made:
            other.unlink(missing_ok=True)
    return made


def _remove_left(folder: Path) -> None:
    """What processes that were killed have begun."""
    for left in folder.glob(f"{_MAKING}*"):
        if os.path.isdir("/proc/self") and not os.path.isdir(f"/proc/{left.name.split('-')[1]}"):
            shutil.rmtree(left, ignore_errors=True)


def _require_mapped(archive: Path, environment: Mapping[str, str]) -> None:
    """A JVM that was killed while it wrote leaves a part, which would abort the JVM of every later start."""
    code = "from pyspark.java_gateway import launch_gateway; launch_gateway()"
    mapping = {**environment, _VARIABLE: f"{_options(archive)} -Xshare:on"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, env=mapping, cwd=archive.parent, timeout=300, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise HoldfastError("could not keep Spark's classes: Java did not start within 5 minutes") from error
    if done.returncode:
        raise HoldfastError(
            f"could not keep Spark's classes: Java does not start with what it wrote, {archive.stat().st_size} bytes",
            hint="run it again; this needs 2 GB of memory for half a minute, and room for 200 MB",
        )


def _options(archive: Path) -> str:
    return f'-XX:SharedArchiveFile="{archive}" -XX:+VerifySharedSpaces'


def _live(environment: Mapping[str, str], place: Path) -> str:
    """What Spark said last. Python ends before its JVM has written the file, but the JVM holds the pipe until then."""
    command = [sys.executable, "-m", "holdfast.spark.typical_life", str(place)]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=place,
        text=True,
        errors="replace",
    ) as process:
        said, _ = process.communicate()
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines and process.returncode else ""


def _folders(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The virtual environment; where that belongs to somebody else, the user's cache."""
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(sys.prefix) / _FOLDER, Path(cache) / _FOLDER


def _is_writable(folder: Path) -> bool:
    with suppress(OSError):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return os.access(folder, os.W_OK)


def _name() -> str:
    """Of this Java and this PySpark. Reads no file of them: that would take as long as it saves."""
    import pyspark

    found = java()
    place = os.path.realpath(found) if found is not None else ""
    spark = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)
    named = hashlib.sha256("\0".join((place, pyspark.__version__, spark)).encode()).hexdigest()[:16]
    return f"{pyspark.__version__}-{named}"


def _full_name(name: str, size: int) -> str:
    return f"{name}-{size}.jsa"
