"""Spark's JVM for processes that live for seconds: starting takes most of their time, compiling well would take more.

The JVM can keep its loaded classes in a file and map it at the next start, which halves the time until the first batch.
The file is made once, by a short life of Spark. It fits only the jars that it was made with, at their very place, so it
lies in the same virtual environment.
"""

import fcntl
import functools
import os
import subprocess
import sys
from pathlib import Path

import pyspark

_STREAMING = "org.apache.spark.sql.execution.streaming"
_CHECKPOINTING = f"{_STREAMING}.checkpointing" if pyspark.__version__ >= "4.1" else _STREAMING
USUAL_FILES = f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager"
"""How Spark writes its logs and state unless told otherwise. Without Hadoop's native library, which PySpark lacks, it
starts a process for each file: a third of all work of these tests. So the others are the default in here."""
_QUICK_FILES = f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager"

_QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable -Xlog:all=off"
    f" -Dspark.sql.streaming.checkpointFileManagerClass={_QUICK_FILES}"
)


@functools.cache
def options() -> str:
    """For JDK_JAVA_OPTIONS."""
    archive = Path(sys.prefix) / f"classes-{_java_version()}-spark-{pyspark.__version__}.jsa"
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes of tests start at the same time
        if not archive.exists():
            _make(archive)
    return f"{_QUICK} -XX:SharedArchiveFile={archive}" if archive.exists() else _QUICK


def _make(archive: Path) -> None:
    """Under another name first: what exists under its own is whole."""
    part, place = archive.with_suffix(".part"), archive.with_suffix(".life")
    part.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": f"{_QUICK} -XX:ArchiveClassesAtExit={part}",
    }
    command = [sys.executable, "-m", "holdfast.spark.typical_life", str(place)]
    # Python ends before its JVM has written the file. The JVM holds the pipe, whose end is awaited here.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        process.communicate()
    subprocess.run(["rm", "-rf", str(place)], check=True)
    if part.exists():
        part.rename(archive)


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    return shown.split('"')[1]
