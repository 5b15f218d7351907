"""Server programs for tests: fetched once into a cache outside of the repository, started on a free port, stopped."""

import contextlib
import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import pytest

from tests.patience import PATIENCE


def cache() -> Path:
    path = Path(os.environ.get("HOLDFAST_TEST_CACHE") or Path.home() / ".cache" / "holdfast-tests")
    path.mkdir(parents=True, exist_ok=True)
    return path


_PORTS = range(15_000, 32_000)
"""Below those that the kernel gives to whoever connects: no client of anybody sits on them by chance."""
_RESERVED: list[TextIO] = []


def free_port() -> int:
    """A port that no other test is given as long as this process lives, also while nobody listens on it."""
    reservations = cache() / "ports"
    reservations.mkdir(exist_ok=True)
    for port in random.SystemRandom().sample(_PORTS, 1000):
        reservation = (reservations / str(port)).open("w")
        with contextlib.suppress(OSError), socket.socket() as probe:
            fcntl.flock(reservation, fcntl.LOCK_EX | fcntl.LOCK_NB)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            _RESERVED.append(reservation)
            return port
        reservation.close()
    raise AssertionError(f"of 1000 ports in {_PORTS} none is free")


def maven_artifact(artifact: str, name: str) -> Path:
    """A file of Maven's repositories, from the cache when it is there. Skips the test when it cannot be had."""
    target = cache() / name
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
    with tempfile.TemporaryDirectory(dir=target.parent) as partial:
        command = [required("mvn"), "-q", "-B", goal, f"-Dartifact={artifact}", f"-DoutputDirectory={partial}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"could not fetch {artifact} with Maven: {done.stdout[-500:]}")
        (file,) = Path(partial).iterdir()
        file.replace(target)
    return target


def installed(name: str, command: Callable[[Path], Sequence[str]], folder: Path | None = None) -> Path:
    """A directory of the cache, filled by the command on first use. Skips the test when the command fails."""
    target = cache() / name
    if target.exists():
        return target
    partial = Path(tempfile.mkdtemp(dir=cache(), prefix="partial-"))
    done = subprocess.run(command(partial), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(partial)
        pytest.skip(f"could not install {name}: {(done.stdout + done.stderr)[-500:]}")
    try:
        partial.rename(target)
    except OSError:  # another process was quicker
        shutil.rmtree(partial)
    return target


def required(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@contextlib.contextmanager
def running(
    command: Sequence[str], log: Path, is_up: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """The process while the block runs, entered when `is_up`."""
    with log.open("wb") as output:
        variables = {**os.environ, **(environment or {})}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables)
        try:
            _wait_until(is_up, process, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE)


def answers(url: str) -> Callable[[], bool]:
    """Whether an HTTP server answers there, be it with an error."""

    def ask() -> bool:
        try:
            urllib.request.urlopen(url, timeout=2).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    return ask


def _wait_until(is_up: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_up():
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}: {log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"{process.args!r} does not answer: {log.read_text()[-2000:]}"
        time.sleep(0.05)
