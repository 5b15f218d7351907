"""Flink renamed its settings with version 2: lines are written with the names of 1.x and translated where needed."""

import re

_RENAMED = {
    "state.checkpoints.dir": "execution.checkpointing.dir",
    "state.checkpoints.num-retained": "execution.checkpointing.num-retained",
    "state.backend.incremental": "execution.checkpointing.incremental",
    "state.backend.local-recovery": "execution.state-recovery.from-local",
    "state.checkpoint.cleaner.parallel-mode": "execution.checkpointing.cleaner.parallel-mode",
    "state.storage.fs.memory-threshold": "execution.checkpointing.data-inline-threshold",
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled": (
        "execution.checkpointing.checkpoints-after-tasks-finish"
    ),
    "kubernetes.jobmanager.cpu": "kubernetes.jobmanager.cpu.amount",
    "execution.savepoint.ignore-unclaimed-state": "execution.state-recovery.ignore-unclaimed-state",
}
_SINCE = (2, 0)
_OLD = re.compile("|".join(rf"{re.escape(old)}(?![\w.-])" for old in _RENAMED))


def for_version(lines: tuple[str, ...], version: tuple[int, ...] | None) -> tuple[str, ...]:
    if version is None or version < _SINCE:
        return lines
    return tuple(_renamed(line) for line in lines)


def _renamed(line: str) -> str:
    return _OLD.sub(lambda match: _RENAMED[match[0]], line)
