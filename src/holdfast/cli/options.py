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
    bool, typer.Option("--health", help="Exit with 1 when something is critical; warnings are no reason.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else there.")]
CheckpointOption = Annotated[
    int | None, typer.Option("--checkpoint", metavar="ID", min=1, show_default=False, help="This checkpoint.")
]
OnConflict = Annotated[
    str,
    typer.Option(
        "--on-conflict",
        metavar="refuse|takeover",
        help="A run that vanished without saying so: refuse, or take the job after watching its heartbeat.",
    ),
]
