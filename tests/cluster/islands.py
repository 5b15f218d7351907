"""Places on this machine that share nothing but a network: each with an address, a loopback and empty directories of
its own, and everything else read-only, the installed software. As pods without a volume are. Needs root.
"""

import contextlib
import itertools
import os
import random
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cluster.standalone import Seat

OWN = ("/tmp", "/run", "/var/tmp", "/dev/shm")
"""Directories that are empty in each island, and can be written."""
_BITS = 16


@dataclass
class Sea:
    """The network that islands are in, and this process too, at `host`. Closing it sinks them."""

    network: str
    hidden: Path
    """A directory of this process that no island sees."""
    bridge: str
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(2))
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    @property
    def host(self) -> str:
        return f"{self.network}.0.1"

    def island(self) -> Seat:
        number = next(self._numbers)
        address = f"{self.network}.{number // 250}.{number % 250 + 1}"
        holder = self._stack.enter_context(_namespaces(self.hidden))
        inside = ("nsenter", "--target", str(holder.pid), "--net", "--mount", "--", "env", f"--chdir={Path.cwd()}")
        ours, theirs = f"{self.bridge}.{number}", f"{self.bridge}-{number}"
        _run("ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", str(holder.pid))
        _run("ip", "link", "set", ours, "master", self.bridge, "up")
        _run(*inside, "ip", "address", "add", f"{address}/{_BITS}", "dev", theirs)
        _run(*inside, "ip", "link", "set", theirs, "up")
        _run(*inside, "ip", "link", "set", "lo", "up")
        return Seat(address, inside, Path("/tmp"))


@contextlib.contextmanager
def sea_of_islands(hidden: Path) -> Iterator[Sea]:
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("only root may make network and mount namespaces")
    # Addresses for measuring networks: nothing real has them.
    sea = Sea(f"198.{random.SystemRandom().choice((18, 19))}", hidden, f"hf{os.getpid()}")
    _run("ip", "link", "add", sea.bridge, "type", "bridge")
    try:
        _run("ip", "address", "add", f"{sea.host}/{_BITS}", "dev", sea.bridge)
        _run("ip", "link", "set", sea.bridge, "up")
        with sea._stack:
            yield sea
    finally:
        _run("ip", "link", "delete", sea.bridge)


@contextlib.contextmanager
def _namespaces(hidden: Path) -> Iterator["subprocess.Popen[str]"]:
    """Held by a process that ends with this one."""
    own = [f"mount -t tmpfs none {shlex.quote(path)}" for path in (str(hidden), *OWN)]
    script = " && ".join(["mount -o remount,bind,ro /", *own, "echo there", "exec cat"])
    command = ["unshare", "--net", "--mount", "sh", "-c", script]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/")
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "there\n"
        yield holder
    finally:
        holder.kill()
        holder.communicate()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
