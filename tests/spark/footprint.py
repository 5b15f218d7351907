"""What a process and its JVM hold of the machine: files, threads, processes, ports, memory, directories."""

import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

_LISTENING = "0A"
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Footprint:
    python_files: int
    python_threads: int
    python_memory: int
    jvm_files: int
    jvm_threads: int
    jvm_heap: int
    """In use after a collection."""
    processes: int
    """All below this one, the JVM and Spark's Python workers among them."""
    ports: int
    """Being listened on, by this process or the JVM."""
    directories: int
    """Work directories, and those in which an executor keeps state. What else Spark puts there is not ours."""

    open_in_the_jvm: Counter[str] = field(default_factory=Counter, compare=False)
    """What kind of files: to be shown."""

    def beyond(self, earlier: "Footprint", allowed: dict[str, int]) -> dict[str, object]:
        """What has grown by more than is allowed: before and now."""
        both = {name: (getattr(earlier, name), getattr(self, name)) for name in allowed}
        grown: dict[str, object] = {
            name: (before, now) for name, (before, now) in both.items() if now > before + allowed[name]
        }
        return grown | {"more in the JVM": self.open_in_the_jvm - earlier.open_in_the_jvm} if grown else {}


def footprint(spark: SparkSession, work: Path) -> Footprint:
    context = spark.sparkContext
    jvm, pid = context._jvm, context._gateway.proc.pid
    jvm.java.lang.System.gc()
    heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    local = Path(getattr(jvm, "org.apache.spark.util.Utils").getLocalDir(context._jsc.sc().conf()))
    return Footprint(
        python_files=_count(Path("/proc/self/fd")),
        python_threads=threading.active_count(),
        python_memory=int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE,
        jvm_files=_count(Path(f"/proc/{pid}/fd")),
        jvm_threads=_count(Path(f"/proc/{pid}/task")),
        jvm_heap=heap,
        processes=len(_below(os.getpid())),
        ports=len(_sockets(os.getpid(), pid) & _listening()),
        directories=_count(work) + len(list(local.glob("StateStoreId(*"))),
        open_in_the_jvm=Counter(re.sub(r"[0-9a-f-]{8,}|\d+", "#", target) for target in _open(pid)),
    )


def _count(directory: Path) -> int:
    return len(os.listdir(directory))


def _below(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue  # it has just ended
        children.setdefault(parent, []).append(int(path.parent.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        waiting += (below := children.get(waiting.pop(), []))
        found.update(below)
    return found


def _sockets(*pids: int) -> set[str]:
    targets = (target for pid in pids for target in _open(pid))
    return {target[len("socket:[") : -1] for target in targets if target.startswith("socket:[")}


def _open(pid: int) -> Iterator[str]:
    for path in Path(f"/proc/{pid}/fd").iterdir():
        try:
            yield os.readlink(path)
        except OSError:
            continue  # it has just been closed


def _listening() -> set[str]:
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    return {line[9] for line in lines if line[3] == _LISTENING}
