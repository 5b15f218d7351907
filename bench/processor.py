"""How much processor time this process and its children took, and how much everybody else did meanwhile.

A benchmark on a shared machine says nothing unless it says how shared the machine was. Linux only.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
_KERNEL = 2
"""The parent of all threads of the kernel."""


@dataclass(frozen=True)
class Moment:
    at: float
    own: float
    """Seconds of processor time so far."""
    machine: float
    """The same for all programs, and for what the hypervisor gave to other machines; without the kernel's own work."""


def now(root: int | None = None) -> Moment:
    """`root` is the process that counts as one's own with all its descendants, in place of this one."""
    own, kernel = _own_and_kernel_seconds(os.getpid() if root is None else root)
    return Moment(time.monotonic(), own, _machine_seconds() - kernel)


def own_between(begun: Moment, ended: Moment) -> float:
    return ended.own - begun.own


def others_between(begun: Moment, ended: Moment) -> float:
    """Cores that others kept busy, on average."""
    others = (ended.machine - begun.machine) - own_between(begun, ended)
    return max(0.0, others / (ended.at - begun.at))


def _machine_seconds() -> float:
    user, nice, system, _idle, _waiting, _interrupt, _soft_interrupt, stolen = map(
        int, (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + stolen) / _TICK


def _own_and_kernel_seconds(root: int) -> tuple[float, float]:
    """Of the process and all its descendants, those included that ended and were waited for; of the kernel's threads.

    The kernel's count for nobody: on an idle machine they work for whoever reads and writes.
    """
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                # The name, in parentheses, may hold anything; what follows it is plain.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            parents[int(folder.name)] = int(fields[1])
            seconds[int(folder.name)] = sum(map(int, fields[11:15])) / _TICK
    own = sum(used for process, used in seconds.items() if _descends(process, root, parents))
    kernel = sum(used for process, used in seconds.items() if _descends(process, _KERNEL, parents))
    return own, kernel


def _descends(process: int, ancestor: int, parents: dict[int, int]) -> bool:
    while process not in (0, ancestor):
        process = parents.get(process, 0)
    return process == ancestor
