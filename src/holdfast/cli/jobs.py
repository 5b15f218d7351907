"""`holdfast jobs`: the jobs of a home, and the age of each job's newest checkpoint."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from holdfast.cli import figures
from holdfast.cli.health import STYLES, judged
from holdfast.cli.observing import examine
from holdfast.cli.options import AsJson, Health, Home
from holdfast.cli.output import plain_table, print_json, print_message, print_table
from holdfast.errors import HoldfastError, JobFailed
from holdfast.repository.documents import CheckpointDocument, JobList, JobView
from holdfast.repository.jobs import is_job
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import is_local, open_store

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

_AT_ONCE = 16
STATE_STYLES = {"running": "green", "ended": "dim", "lost": "bold red", "never_run": "dim"}
STATE_WORDS = {"running": "running", "ended": "ended", "lost": "not running", "never_run": "never ran"}


def jobs(home: Home, health: Health = False, as_json: AsJson = False) -> None:
    """List the jobs of a home and their newest checkpoints."""
    root = open_store(home)
    readable, unreadable = _statuses(home, root)
    if as_json:
        print_json(JobList(home=home, jobs=tuple(readable)))
    elif readable:
        print_table(jobs_table(readable, datetime.now(UTC)))
    elif not unreadable:
        print_message(f"{home} holds no job yet. Start one: holdfast run FILE --home {home}")
    if unreadable:
        # The others were shown; the job that could not be read decides the exit code.
        raise unreadable[0]
    if health:
        _require_well(home, readable)


def _require_well(home: str, statuses: list[JobView]) -> None:
    ill = [status for status in statuses if status.health == "critical"]
    if ill:
        names = ", ".join(f"{status.job!r} ({status.findings[0]['code']})" for status in ill)
        raise JobFailed(
            f"{figures.counted(len(ill), 'job')} of {home} not healthy: {names}",
            hint=f"holdfast status --job {ill[0].job}",
        )


def _statuses(home: str, root: ObjectStore) -> tuple[list[JobView], list[HoldfastError]]:
    """One unreadable job must not hide the others. A request takes as long as its way there and back: jobs of a remote
    home are read side by side."""
    names = root.children()
    with ThreadPoolExecutor(1 if is_local(home) else _AT_ONCE, "holdfast-jobs") as pool:
        read = [answer for answer in pool.map(partial(_status, home, root), names) if answer is not None]
    readable = [answer for answer in read if isinstance(answer, JobView)]
    unreadable = [answer for answer in read if isinstance(answer, HoldfastError)]
    for further in unreadable[1:]:
        print_message(f"holdfast: {further.message}")
    return readable, unreadable


def _status(home: str, root: ObjectStore, name: str) -> JobView | HoldfastError | None:
    """None for what is not a job."""
    try:
        return judged(examine(home, name, root.scoped(name)))[0] if is_job(root, name) else None
    except HoldfastError as error:
        error.message = f"job {name!r}: {error.message}"
        return error


def jobs_table(statuses: list[JobView], now: datetime) -> "Table":
    from rich.text import Text

    table = plain_table("job", "state", "owner", "last checkpoint", "age", "failures", "health")
    for status in statuses:
        last, owner = status.last_completed, status.owner
        failures = str(status.consecutive_failures)
        table.add_row(
            Text(status.job, style="bold"),
            Text(STATE_WORDS[status.state], style=STATE_STYLES[status.state]),
            Text(f"{owner.host} pid {owner.pid}" if owner else "-"),
            _last(last),
            Text(figures.age(last.completed_at, now) if last and last.completed_at else "-"),
            Text(failures, style="bold red" if status.consecutive_failures else "dim"),
            Text(_health(status), style=STYLES[status.health]),
        )
    return table


def _last(last: CheckpointDocument | None) -> "Text":
    from rich.text import Text

    if last is None:
        return Text("none")
    return Text(f"{last.id} at batch {last.barrier_batch_id}").append("" if last.usable else ", damaged", "bold red")


def _health(status: JobView) -> str:
    """With the code of the worst finding; `holdfast status` explains it."""
    return status.health if not status.findings else f"{status.health}: {status.findings[0]['code']}"
