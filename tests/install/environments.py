"""The package as users get it: the built wheel, in environments that hold nothing but one extra and what it brings."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
_OURS = ("PYTHON", "PYSPARK_", "SPARK_", "HOLDFAST_", "AWS_", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Environment:
    path: Path
    place: Path
    """A directory outside of the repository, in which commands run."""

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        program, *arguments = map(str, command)
        return subprocess.run(
            [str(self.path / "bin" / program), *arguments],
            cwd=self.place,
            env=self.variables(**variables),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def variables(self, **more: str) -> dict[str, str]:
        """What a shell of the user's has: nothing of this repository and of the environment of these tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return {**kept, "PATH": f"{self.path / 'bin'}{os.pathsep}{os.defpath}{os.pathsep}{kept['PATH']}", **more}


def built_wheel(to: Path) -> Path:
    _uv("build", "--quiet", "--wheel", "--out-dir", str(to), str(ROOT))
    (wheel,) = to.glob("holdfast_spark-*.whl")
    return wheel


def environment(wheel: Path, extras: Sequence[str], place: Path) -> Environment:
    """In the versions of the lock file, which are in uv's cache: what is newer tomorrow fails nobody's change today."""
    path = place / "environment"
    _uv("venv", "--quiet", "--python", sys.executable, str(path))
    wanted = f"holdfast-spark[{','.join(extras)}] @ {wheel.as_uri()}"
    locked = place / "constraints.txt"
    locked.write_text("\n".join(re.findall(r"^\S+==\S+", (ROOT / "requirements.lock").read_text(), re.MULTILINE)))
    install = (
        "pip",
        "install",
        "--quiet",
        "--python",
        str(path / "bin" / "python"),
        "--constraint",
        str(locked),
        wanted,
    )
    # From the cache alone if that has all of it: where a server allows no caching, uv would build PySpark each time.
    if _tried("--offline", *install).returncode != 0:
        _uv(*install)
    return Environment(path, place)


def _uv(*arguments: str) -> None:
    done = _tried(*arguments)
    assert done.returncode == 0, f"uv {' '.join(arguments)}: {done.stderr}"


def _tried(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([_program(), *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)


def _program() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        pytest.skip("uv is not installed")
    return found
