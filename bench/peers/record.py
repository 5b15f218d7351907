"""What was measured, where and how; one file per system and part in `recorded/`."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from bench.peers.pipeline import Checked, Query, Shape
from bench.peers.systems.system import Checkpoint
from bench.rounds import DISTURBED

RECORDED = Path(__file__).with_name("recorded")
Restored = Literal["by itself", "by hand", "no"]


class Circumstances(msgspec.Struct, frozen=True):
    at: str
    system: str
    """Name and version."""
    java: str
    machine: str
    commit: str
    command: str


class Round(msgspec.Struct, frozen=True):
    number: int
    query: Query
    shape: Shape
    interval: str
    seconds: float
    rows: int
    processor_s: float
    """Of all processes of the system, while those rows were read."""
    checkpoints: tuple[Checkpoint, ...]
    first_written_s: float | None
    """From the start of a process, after a kill -9, to output that may not be visible yet."""
    first_visible_s: float | None
    others: float
    """Cores that other programs kept busy meanwhile, on average; the most of the parts."""
    load: float
    """Of the last minute, at the end."""

    @property
    def per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def processor_per_million(self) -> float:
        return self.processor_s / self.rows * 1e6

    @property
    def disturbed(self) -> bool:
        return self.others > DISTURBED


class Rounds(msgspec.Struct, frozen=True):
    circumstances: Circumstances
    rounds: tuple[Round, ...]


class Suffered(msgspec.Struct, frozen=True):
    """One fault."""

    fault: str
    circumstances: Circumstances
    not_applicable: str | None = None
    """Why there is nothing to do to this system."""
    kept_running: bool = False
    """No process had to be started again."""
    process_restarts: int = 0
    own_restarts: int = 0
    """Of its work, by the system itself."""
    silent_s: float = 0
    """The longest time without new visible output, from the fault on."""
    usual_silent_s: float = 0
    """The same before the fault."""
    progressed: bool = False
    """New visible output after the fault, without a hand."""
    restored: Restored = "no"
    """After a last kill, from what was there."""
    checked: Checked | None = None
    second: str | None = None
    """What became of the second deployment."""
    load: float = 0
    last_words: str = ""
    """The last error in its log."""


class Faults(msgspec.Struct, frozen=True):
    shape: Shape
    interval: str
    suffered: tuple[Suffered, ...]


def circumstances(system: str) -> Circumstances:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    java = next(line for line in told.splitlines() if " version " in line)
    return Circumstances(
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        system,
        java,
        f"{os.cpu_count()} cores of {_processor()}, {_memory_gib():.0f} GiB, {platform.system()} {platform.release()}",
        commit(),
        " ".join(["python -m bench.peers", *sys.argv[1:]]),
    )


@cache
def commit() -> str:
    """As it was when the run began."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1).strip() if found else platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def load() -> float:
    return round(os.getloadavg()[0], 1)


Part = TypeVar("Part", Rounds, Faults)


def write(folder: Path, part: Rounds | Faults, system: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, type(part), system)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(part), indent=1) + b"\n")


def read(folder: Path, kind: type[Part], system: str) -> Part | None:
    path = _path(folder, kind, system)
    return msgspec.json.decode(path.read_bytes(), type=kind) if path.exists() else None


def _path(folder: Path, kind: type[Rounds | Faults], system: str) -> Path:
    return folder / f"{kind.__name__.lower()}-{system}.json"
