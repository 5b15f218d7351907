"""Every command: where it is, and its line in the help. A command's module is imported when the command is called.

So `holdfast --help` and a probe that calls `holdfast status` do not pay for the other commands.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer

from holdfast.cli.grouped_help import GroupedCommand, GroupedCommands
from holdfast.cli.reading import Command, answering, watching


def _as_it_is(command: Command) -> Command:
    return command


@dataclass(frozen=True)
class Listed:
    where: str
    """Module below `holdfast.cli` and function, or a typer app with commands of its own."""
    line: str
    """The first sentence of the command's own help."""
    shape: Callable[[Command], Command] = _as_it_is
    """Adds the options that commands of one kind share."""

    def load(self, name: str, panel: str) -> Any:
        module, _, attribute = self.where.partition(":")
        found = getattr(import_module(f"holdfast.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=GroupedCommand, rich_help_panel=panel)(self.shape(found))
        return typer.main.get_command(alone)


# In the order of the help.
GROUPS: Mapping[str, Mapping[str, Listed]] = {
    "Begin": {
        "demo": Listed("demo.command:demo", "Watch a pipeline survive production failures."),
        "init": Listed("init.command:init", "Write a pipeline to begin with, which runs as it is."),
        "run": Listed("run:run", "Run a pipeline file as a supervised job."),
        "adopt": Listed("adopt:adopt", "Make a job of a query that plain Spark has run.", answering),
        "prepare": Listed("prepare:prepare", "Make later starts quicker, with a file of Spark's classes."),
        "protect": Listed("protect:protect", "Take checkpoints of a query that holdfast does not run."),
        "completion": Listed("completion:completion", "Print a script that completes commands and options."),
    },
    "Look": {
        "jobs": Listed("jobs:jobs", "List the jobs of a home and their newest checkpoints.", watching),
        "status": Listed("status:status", "Show the health of one job, and what to do about it.", watching),
        "checkpoints": Listed(
            "checkpoints:checkpoints", "List the checkpoints of a job, failures with their reasons.", watching
        ),
        "show": Listed("show:show", "Show one checkpoint: its phases, shards, files, bytes.", watching),
        "events": Listed("events:events", "Show what happened to a job, oldest first.", answering),
        "top": Listed("top:top", "Show all jobs of a home on one live screen, until Ctrl-C."),
        "dashboard": Listed("dashboard.command:dashboard", "Serve the web page of a home."),
        "doctor": Listed("doctor:doctor", "Find out why checkpoints fail, from a job or from logs."),
    },
    "Ask a running job": {
        "checkpoint": Listed(
            "requesting:checkpoint", "Request a checkpoint from the running job, and wait for it.", answering
        ),
        "stop": Listed("requesting:stop", "Stop the running job cleanly, with a last checkpoint.", answering),
    },
    "Use and keep checkpoints": {
        "restore": Listed("restore:restore", "Write a verified Spark checkpoint directory.", answering),
        "rollback": Listed("rollback:rollback", "Take a stopped job back to a checkpoint.", answering),
        "rescale": Listed("rescale:rescale", "Give a stopped job another number of state partitions.", answering),
        "copy": Listed("copy:copy", "Copy a checkpoint, or a whole job, to another home.", answering),
        "verify": Listed("verify:verify", "Re-read stored data and compare checksums.", answering),
        "collect": Listed("collect:collect", "Delete expired checkpoints and orphaned objects.", answering),
        "watch": Listed("watch:watch", "Raise the alarms of all jobs from outside their drivers."),
        "savepoint": Listed("savepoint:app", "Named, pinned checkpoints."),
        "alarm": Listed("alarm:app", "Test whether alarms reach people."),
    },
}
WITH_SUBCOMMANDS = ("savepoint", "alarm")
LISTED: Mapping[str, tuple[str, Listed]] = {
    name: (panel, listed) for panel, commands in GROUPS.items() for name, listed in commands.items()
}


class _LoadedWhenCalled(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        panel, listed = LISTED[name]
        return listed.load(name, panel)

    def __iter__(self) -> Iterator[str]:
        return iter(LISTED)

    def __len__(self) -> int:
        return len(LISTED)


class AllCommands(GroupedCommands):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.commands: Any = _LoadedWhenCalled()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(LISTED)

    def lines(self, ctx: Any, limit: int) -> Iterator[tuple[str, tuple[str, str]]]:
        for name, (panel, listed) in LISTED.items():
            yield panel, (name, listed.line)
