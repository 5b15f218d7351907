"""How a system lives through one fault: run, suffer, go on, be killed, come back, compare the output."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from bench.peers.pipeline import Checked, Shape, check
from bench.peers.record import Restored, Suffered, circumstances, load
from bench.peers.setting import Setting, seconds
from bench.peers.supervised import Supervised
from bench.peers.systems.system import System

SHAPE = Shape(keys=20_000, window_keys=200, per_second=1_000, delay=5, batch=20_000)
INTERVAL = "3s"
_PATIENCE_S = 600.0
_AFTER_S = 480.0
"""A busy machine must not look like a job that is lost."""
_QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For all JVMs alike: what is measured here is not speed."""
_STORE_BYTES = 256 << 20
_ERROR = re.compile(r"(?:ERROR|Exception|Error:|error:).*")


class Fault(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def not_applicable(self, system: System) -> str | None:
        """Why there is nothing to do to this system."""

    def prepared(self, setting: Setting) -> Setting: ...

    def inflict(self, job: Supervised) -> str | None:
        """Does it, and comes back when it is over. What became of a second deployment, where there was one."""


class Usual:
    """What most faults have in common."""

    def not_applicable(self, system: System) -> str | None:
        return None

    def prepared(self, setting: Setting) -> Setting:
        return setting


def suffer(fault: Fault, system: System, place: Path) -> Suffered:
    reason = fault.not_applicable(system)
    if reason is not None:
        return Suffered(fault.name, circumstances(system.version()), not_applicable=reason)
    setting = Setting(str(place), "windowed", SHAPE, INTERVAL, rows_per_second=SHAPE.per_second)
    setting = fault.prepared(setting)
    setting.make_folders()
    with _small_disk(setting.store), _java_options(_QUICK_START):
        job = Supervised(system, setting)
        try:
            return _suffered(fault, job)
        finally:
            if job.life is not None:
                job.life.kill()


def _suffered(fault: Fault, job: Supervised) -> Suffered:
    job.start()
    if not job.until_output(4, _PATIENCE_S):
        raise RuntimeError(f"{job.system.name} wrote no output before the fault: {_last_words(job.setting)}")
    usual = job.silence(job.outputs[-4], job.outputs[-1])
    begun = time.monotonic()
    second = fault.inflict(job)
    progressed = job.until_output(2, _AFTER_S)
    ended = time.monotonic()
    process_restarts = job.process_restarts
    last_words = _last_words(job.setting)
    restored = _restored(job)
    checked = _compared(job) if restored != "no" else None
    return Suffered(
        fault=fault.name,
        circumstances=circumstances(job.system.version()),
        kept_running=process_restarts == 0,
        process_restarts=process_restarts,
        own_restarts=job.own_restarts,
        silent_s=round(job.silence(begun, ended), 1),
        usual_silent_s=round(usual, 1),
        progressed=progressed,
        restored=restored,
        checked=checked,
        second=second,
        load=load(),
        last_words=last_words,
    )


def _restored(job: Supervised) -> Restored:
    job.kill()
    job.start(timeout=None)
    if job.until_output(2, _AFTER_S):
        return "by itself"
    job.kill()
    return "by hand" if job.start_by_hand() and job.until_output(2, _AFTER_S) else "no"


def _compared(job: Supervised) -> Checked:
    """When there is more than may be visible in part."""
    margin = job.system.margin(seconds(INTERVAL))
    job.until_output(margin // 3 + 3, _AFTER_S)
    job.kill()
    rows = (row for file in job.system.visible(job.setting) for row in job.system.rows(file))
    return check(rows, SHAPE, margin)


def _last_words(setting: Setting) -> str:
    found = _ERROR.findall(setting.log.read_text(errors="replace"))
    return found[-1][:300] if found else ""


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """A store that can be full, or unwritable for root, too. Needs the right to mount."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={_STORE_BYTES}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"a small disk could not be mounted: {done.stderr.strip()}. Try: as root")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def _java_options(options: str) -> Iterator[None]:
    before = os.environ.get("JDK_JAVA_OPTIONS")
    os.environ["JDK_JAVA_OPTIONS"] = options
    try:
        yield
    finally:
        os.environ.pop("JDK_JAVA_OPTIONS")
        if before is not None:
            os.environ["JDK_JAVA_OPTIONS"] = before


def changed(setting: Setting, **values: object) -> Setting:
    return msgspec.structs.replace(setting, **values)
