"""What a system must be able to do to be compared."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

import msgspec

from bench.peers.pipeline import Group
from bench.peers.setting import Setting


class Progress(msgspec.Struct, frozen=True):
    at: float
    rows: int
    """Read by this life so far."""
    commit_s: float | None = None
    """What the batch spent on making itself durable, where each batch does."""
    restarts: int = 0
    """Of the query, by the system itself, in this life."""


class Checkpoint(msgspec.Struct, frozen=True):
    seconds: float
    written: int
    """Bytes."""
    full: bool


@dataclass
class Processes:
    """One or more process groups; they die with the block."""

    started: float
    each: list[subprocess.Popen[bytes]]

    @classmethod
    def of(cls, commands: Iterable[Sequence[str]], log: Path, environment: Mapping[str, str] | None = None) -> Self:
        started = time.time()
        return cls(started, [start(command, log, environment) for command in commands])

    @property
    def main(self) -> subprocess.Popen[bytes]:
        return self.each[-1]

    def alive(self) -> bool:
        return all(process.poll() is None for process in self.each)

    def kill(self) -> None:
        for process in self.each:
            kill_group(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


def start(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=output, env={**os.environ, **(environment or {})}, start_new_session=True
        )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class System(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def version(self) -> str: ...

    def start(self, setting: Setting) -> Processes:
        """Resumes from the newest checkpoint that is there."""

    def start_by_hand(self, setting: Setting) -> Processes | None:
        """What an operator can do when `start` leads nowhere: resume from an older checkpoint. None: nothing."""

    def progress(self, setting: Setting, life: Processes) -> Progress | None:
        """The newest of this life."""

    def full_checkpoint(self, setting: Setting, life: Processes) -> None:
        """Asks for one and waits, where the life did not take one by itself."""

    def checkpoints(self, setting: Setting, life: Processes) -> list[Checkpoint]:
        """Completed ones, oldest first."""

    def restarts(self, setting: Setting) -> int:
        """By the system itself, in all lives."""

    def worker(self, life: Processes) -> int:
        """The process id of the worker, where `Setting.worker` was given."""

    def replace_worker(self, setting: Setting, life: Processes) -> None:
        """What a supervisor of machines does; nothing where the system starts another one by itself."""

    def written(self, setting: Setting) -> set[str]:
        """Files of output, also those that no reader sees yet."""

    def visible(self, setting: Setting) -> list[Path]:
        """Files of output that a reader sees."""

    def margin(self, interval_s: float) -> int:
        """So many of the newest seconds of event time may be visible in part."""

    def rows(self, file: Path) -> Iterator[Group]:
        """What is in a visible file."""

    def newest_bytes(self, setting: Setting) -> Path:
        """The file to damage: the newest that the newest checkpoint needs. What a lost disk holds is removed."""
