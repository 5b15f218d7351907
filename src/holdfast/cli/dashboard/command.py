"""`holdfast dashboard`: the pages of a home, until it is stopped."""

import re
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.dashboard.board import Board
from holdfast.cli.dashboard.guard import Guard, is_loopback
from holdfast.cli.home_reader import HomeReader
from holdfast.cli.options import Home
from holdfast.cli.output import print_message
from holdfast.errors import InvalidSettings
from holdfast.finding import Finding
from holdfast.settings import seconds

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")

Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 for any free port.")]
Address = Annotated[str, typer.Option("--address", metavar="IP", help="Others than loopback need a token.")]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="HOLDFAST_DASHBOARD_TOKEN",
        metavar="TEXT",
        show_default=False,
        help="Needed to see the pages.",
    ),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option("--host-name", metavar="NAME", show_default=False, help="A name that this server answers to."),
]
TrustedHeader = Annotated[
    str | None,
    typer.Option(
        "--trusted-header", metavar="NAME", show_default=False, help="Set by a proxy that has checked who asks."
    ),
]


WithActions = Annotated[
    bool, typer.Option("--actions", help="Allow what is asked of running jobs from the page; needs a token.")
]
Timeout = Annotated[str, typer.Option("--timeout", metavar="DURATION", help="How long an action waits for its job.")]


def dashboard(
    home: Home,
    port: Port = 8080,
    address: Address = "127.0.0.1",
    token: Token = None,
    host_name: HostNames = None,
    trusted_header: TrustedHeader = None,
    actions: WithActions = False,
    timeout: Timeout = "10m",
) -> None:
    """Serve the web page of a home.

    Its JSON is under /api/v1, its metrics under /metrics.
    """
    if not is_loopback(address) and token is None and trusted_header is None:
        raise InvalidSettings(
            f"could not serve {address}: anybody who reaches it could read the home's history",
            hint="HOLDFAST_DASHBOARD_TOKEN=…, or --trusted-header NAME behind a proxy that sets it",
        )
    limit = seconds("timeout", timeout, least=0.1)
    _check_token(token, actions)
    names = frozenset((host_name or []) + ([] if address in ("0.0.0.0", "::") else [address]))
    guard = Guard(names, token, trusted_header, actions, secrets.token_bytes(32))
    with serving(home, port, address, guard, limit) as bound:
        print_message(f"the dashboard of {home} is at http://{address}:{bound}/")
        threading.Event().wait()


def _check_token(token: str | None, actions: bool) -> None:
    if actions and token is None:
        raise InvalidSettings(
            "could not switch actions on: without a token every program on this machine could use them",
            hint='HOLDFAST_DASHBOARD_TOKEN="$(openssl rand -hex 16)"',
        )
    if token is not None and not _TOKEN.fullmatch(token):
        raise InvalidSettings(
            "the token is not valid: it goes through a header, so it takes letters, digits and - . _ ~ + / = only",
            hint='HOLDFAST_DASHBOARD_TOKEN="$(openssl rand -hex 16)"',
        )


@contextmanager
def serving(
    home: str,
    port: int,
    address: str,
    guard: Guard,
    limit: float = 600.0,
    looked_at_s: float | None = None,
    board: Callable[[], Board | None] = lambda: None,
) -> Iterator[int]:
    """The pages of the home, in threads, until the end of the block; the port that they are at. While somebody looks,
    the home is read every `looked_at_s`. `board` is shown above it."""
    from holdfast.cli.dashboard.actions import Actions
    from holdfast.cli.dashboard.live import LOOKED_AT_S, Live
    from holdfast.cli.dashboard.server import DashboardServer, Site

    reader = HomeReader(home)
    live = Live(reader, looked_at_s or LOOKED_AT_S, board)
    actions = Actions(home, limit) if guard.actions else None
    try:
        server = DashboardServer(address, port, Site(live, guard, _metrics(reader), examine, actions))
    except OSError as error:
        raise InvalidSettings(f"could not listen on {address}:{port}: {error.strerror}", hint="--port N") from error
    live.start()
    server.start()
    try:
        yield server.port
    finally:
        live.close()
        server.close()


def _metrics(reader: HomeReader) -> Callable[[], bytes] | None:
    """None where prometheus-client is missing: the pages need it not."""
    from holdfast.monitoring.metrics_server import metrics_of

    try:
        return metrics_of(lambda: list(reader.latest.jobs.values()))
    except InvalidSettings:
        return None


def examine(text: str) -> tuple[Finding, ...]:
    """What the doctor says about this text."""
    from holdfast.cli.reading_logs import examined

    with tempfile.TemporaryDirectory(prefix="holdfast-doctor-") as place:
        log = Path(place) / "pasted.log"
        log.write_text(text)
        return tuple(examined([str(log)], None, None).findings)
