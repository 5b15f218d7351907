"""The interpreters of the compatibility suite: one virtual environment per version of PySpark, in `.compat/<version>`.

Only PySpark, with the py4j that it needs, is in there. All else, holdfast included, is the project's own environment,
which follows on the path.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[2] / ".compat"
OWN = str(pyspark.__version__)
VERSIONS = ("3.5.9", "4.0.5", "4.1.4", "4.2.1", OWN)
"""The newest of each feature version that is supported, oldest first."""


def interpreter_of(version: str) -> str:
    """Made on first use."""
    if version == OWN:
        return sys.executable
    return _made(version, f"pyspark=={version}")


def interpreter_with_connect() -> str:
    """Of the newest version, with what a client and a server of Spark Connect need."""
    return _made(f"{OWN}-connect", f"pyspark[connect]=={OWN}")


def _made(name: str, requirement: str) -> str:
    place = ROOT / name
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        shutil.rmtree(place, ignore_errors=True)
        _make(place, python, requirement)
        (place / "ready").touch()
    return str(python)


def _make(place: Path, python: Path, requirement: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}") or "uv"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), requirement], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    behind = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    (packages / "behind.pth").write_text(behind + "\n")


def main() -> None:
    for version in VERSIONS:
        sys.stdout.write(f"{version} {interpreter_of(version)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
