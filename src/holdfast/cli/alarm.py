"""`holdfast alarm test`: sends a test message to each receiver of alarms."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from holdfast.cli.grouped_help import GroupedCommand, GroupedCommands
from holdfast.cli.options import AlarmUrls, AsJson, job_option
from holdfast.cli.output import print_json, print_message
from holdfast.errors import InvalidSettings, JobFailed
from holdfast.notifying.channels import Channel, NotDelivered, channel_to
from holdfast.notifying.message import Message, message_of_a_test

app = typer.Typer(
    name="alarm",
    add_completion=False,
    cls=GroupedCommands,
    help="Test whether alarms reach people.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

OptionalHome = Annotated[
    str, typer.Option("--home", envvar="HOLDFAST_HOME", metavar="URL", help="Named in the message.")
]
OptionalJob = Annotated[str, job_option("Named in the message.")]


@app.callback()
def _alarm() -> None: ...


@app.command("test", cls=GroupedCommand)
def send_test(alarm: AlarmUrls = None, home: OptionalHome = "", job: OptionalJob = "", as_json: AsJson = False) -> None:
    """Send a test message to each receiver, and say which got it."""
    if not alarm:
        raise InvalidSettings(
            "could not send a test alarm: no receiver is named", hint="holdfast alarm test --alarm https://…"
        )
    message = message_of_a_test(home, job, datetime.now(UTC))
    results = [_sent(channel_to(url), message) for url in alarm]
    for result in results:
        outcome = "delivered" if result["delivered"] else f"not delivered: {result['error']}"
        print_message(f"{result['receiver']}: {outcome}")
    if as_json:
        print_json({"receivers": results})
    failed = [result for result in results if not result["delivered"]]
    if failed:
        named = ", ".join(str(result["receiver"]) for result in failed)
        raise JobFailed(
            f"could not deliver the test alarm to {named}", hint="check the URL and whether it is reachable"
        )


def _sent(channel: Channel, message: Message) -> dict[str, Any]:
    try:
        channel.post(message)
    except NotDelivered as error:
        return {"receiver": channel.name, "delivered": False, "error": str(error)}
    return {"receiver": channel.name, "delivered": True, "error": None}
