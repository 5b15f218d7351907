"""The options that commands share."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.cli.reference import Typed


def marked(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """As `Typed` when the user has typed it."""
    source = ctx.get_parameter_source(param.name or "")
    return Typed(value) if value is not None and source is not None and source.name == "COMMANDLINE" else value


def home_option(panel: str | None = None) -> Any:
    return typer.Option(
        "--home",
        envvar="HOLDFAST_HOME",
        metavar="URL",
        show_default=False,
        rich_help_panel=panel,
        help="Where the checkpoints are, e.g. file:///var/lib/holdfast.",
    )


def alarm_option(panel: str | None = None) -> Any:
    return typer.Option(
        "--alarm",
        envvar="HOLDFAST_ALARMS",
        metavar="URL",
        show_default=False,
        rich_help_panel=panel,
        help="Who gets alarms: https://… for a webhook, slack://, mailto://, … by apprise; may be repeated.",
    )


def job_option(text: str, panel: str | None = None, *, callback: Callable[..., str | None] | None = None) -> Any:
    """With the callback `marked` where an argument may name another job."""
    return typer.Option(
        "--job",
        envvar="HOLDFAST_JOB",
        metavar="NAME",
        show_default=False,
        rich_help_panel=panel,
        callback=callback,
        help=text,
    )


Home = Annotated[str, home_option()]
Job = Annotated[str | None, job_option("The job's name, if no argument names it.", callback=marked)]
JobArgument = Annotated[
    str | None, typer.Argument(metavar="JOB", show_default=False, help="The job. Default: that of --job.")
]
PointArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB[@ID|@SAVEPOINT]", show_default=False, help="The job and, after an @, one of its checkpoints."
    ),
]
Health = Annotated[
    bool, typer.Option("--health", help="Exit with 1 when a finding is critical; warnings do not count.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, and nothing else there.")
]
AlarmUrls = Annotated[list[str] | None, alarm_option()]
CheckpointOption = Annotated[
    int | None, typer.Option("--checkpoint", metavar="ID", min=1, show_default=False, help="This checkpoint.")
]
OnConflict = Annotated[
    str,
    typer.Option(
        "--on-conflict",
        metavar="refuse|takeover",
        help="If a run vanished without recording its end: refuse, or takeover after watching its heartbeat.",
    ),
]
