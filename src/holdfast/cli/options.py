"""The options that commands share."""

from typing import Annotated

import typer

Home = Annotated[
    str,
    typer.Option(
        "--home",
        envvar="HOLDFAST_HOME",
        metavar="URL",
        show_default=False,
        help="Where the checkpoints are, e.g. file:///var/lib/holdfast.",
    ),
]
Job = Annotated[
    str, typer.Option("--job", envvar="HOLDFAST_JOB", metavar="NAME", show_default=False, help="The job's name.")
]
Health = Annotated[
    bool, typer.Option("--health", help="Exit with 1 when a finding is critical; warnings do not count.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output, and nothing else there.")
]
AlarmUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--alarm",
        envvar="HOLDFAST_ALARMS",
        metavar="URL",
        show_default=False,
        help="Who gets alarms: https://… for a webhook, slack://, mailto://, … by apprise; may be repeated.",
    ),
]
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
