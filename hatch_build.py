"""Compiles what runs in Spark's JVM when the package is built: src/jvm → src/holdfast/spark/jvm/holdfast.jar.

Spark moved what ours extend to another package in 4.1, so there are two of each of ours, out of one source. They are
compiled against outlines of what they need of Spark and Hadoop (src/jvm/stubs): building takes a JDK and nothing else.
Without a JDK the package is built without the jar: plans are not kept (docs/queries.md), and no query runs in a work
directory on S3 (docs/cluster.md).
"""

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
JAR = ROOT / "src/holdfast/spark/jvm/holdfast.jar"
SINCE_4_1 = "org.apache.spark.sql.execution.streaming.checkpointing"
BEFORE = "org.apache.spark.sql.execution.streaming"
OURS = ("HeldPlans", "ObjectWrites")
EPOCH = (1980, 1, 1, 0, 0, 0)


class CompileJvm(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = javac()
        if compiler is None:
            self.app.display_warning("no javac: holdfast is built without src/jvm, and keeps no plans of batches")
            return
        with tempfile.TemporaryDirectory() as folder:
            write_jar(compiled(compiler, Path(folder)), JAR)


def javac() -> str | None:
    home = os.environ.get("JAVA_HOME")
    beside = Path(home, "bin/javac") if home else None
    return str(beside) if beside is not None and beside.exists() else shutil.which("javac")


def compiled(compiler: str, folder: Path) -> Path:
    """A folder with the classes for both packages."""
    for package, suffix in ((SINCE_4_1, ""), (BEFORE, "Before41")):
        sources = folder / f"sources{suffix}"
        for source in (ROOT / "src/jvm").rglob("*.java"):
            text, name = source.read_text().replace(SINCE_4_1, package), source.name
            for ours in OURS:
                text, name = text.replace(ours, f"{ours}{suffix}"), name.replace(ours, f"{ours}{suffix}")
            target = sources / source.parent.relative_to(ROOT / "src/jvm") / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        stubs, outlines = folder / f"outlines{suffix}", [str(path) for path in sources.rglob("stubs/**/*.java")]
        run = [compiler, "--release", "17", "-nowarn", "-d"]
        subprocess.run([*run, str(stubs), *outlines], check=True)
        own = [str(path) for path in sources.rglob("holdfast/*.java")]
        subprocess.run([*run, str(folder / "classes"), "-cp", str(stubs), *own], check=True)
    return folder / "classes"


def write_jar(classes: Path, jar: Path) -> None:
    """The same bytes for the same classes."""
    jar.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(jar, "w") as archive:
        for path in sorted(classes.rglob("*.class")):
            archive.writestr(zipfile.ZipInfo(str(path.relative_to(classes)), EPOCH), path.read_bytes())
