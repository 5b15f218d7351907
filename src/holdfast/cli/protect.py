"""`holdfast protect`: checkpoints of a query that holdfast does not run, taken beside it."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from holdfast.cli.adopt import Location, above, require_apart, whole
from holdfast.cli.configuration import Configuration, settings_in
from holdfast.cli.logs import FORMATS as LOG_FORMATS
from holdfast.cli.logs import log_to_standard_error
from holdfast.cli.observing import observe
from holdfast.cli.options import AsJson, alarm_option, home_option, job_option
from holdfast.cli.output import answer, print_json, print_message, standard_output_kept_clean
from holdfast.cli.run_options import FIRST, with_options_of
from holdfast.errors import InvalidSettings, NotFound, StopAsked, StorageError
from holdfast.identifiers import job_name
from holdfast.job_log import about, begin_step
from holdfast.notifying.channels import receivers_of
from holdfast.repository.views import checkpoints
from holdfast.settings import Settings
from holdfast.spark.stop_signals import stopping_on_signals
from holdfast.spark.watchdog import Watchdog

if TYPE_CHECKING:
    from holdfast.runtime.protecting.fitting import FoundDirectory
    from holdfast.runtime.run.environment import Environment
    from holdfast.runtime.run.job_location import JobLocation
    from holdfast.runtime.run.running import Running
    from holdfast.workdir.interface import WorkDirectory

OPTIONS = (
    *("interval", "retained", "timeout", "min_pause", "max_concurrent", "tolerable_failures", "on_exceeded"),
    *("keep_hourly", "keep_daily", "grace", "scrub", "stop_timeout", "on_conflict", "identity", "heartbeat"),
    *("parallelism", "bandwidth", "storage_deadline", "deletes_per_second"),
    *("metrics_port", "metrics_address", "alive_url", "traces_url"),
)
"""Settings of a run that mean the same here."""
_WAITS_S = 1.0

ProtectHome = Annotated[str, home_option(FIRST)]
ProtectJob = Annotated[str, job_option("The job's name.", FIRST)]
ProtectAlarms = Annotated[list[str] | None, alarm_option(FIRST)]
Once = Annotated[
    bool, typer.Option("--once", rich_help_panel=FIRST, help="Take one checkpoint and end, for a timer such as cron.")
]
AcceptOlder = Annotated[
    bool,
    typer.Option(
        "--accept-older-directory",
        rich_help_panel="For one start",
        help="The directory is older than the newest checkpoint: continue from it, without the newer checkpoints.",
    ),
]
LogFormat = Annotated[
    str,
    typer.Option(
        "--log-format",
        metavar="|".join(LOG_FORMATS),
        help="How events are logged on standard error.",
        autocompletion=lambda: list(LOG_FORMATS),
    ),
]


class ProtectDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What a protection had reached when it ended."""

    job: str
    home: str
    location: str
    checkpoint: int | None = None
    """The newest one; null, too, when it was stopped before it had begun."""
    barrier_batch_id: int | None = None


def protect_query(
    ctx: typer.Context,
    location: Location,
    home: ProtectHome,
    job: ProtectJob,
    once: Once = False,
    alarm: ProtectAlarms = None,
    accept_older_directory: AcceptOlder = False,
    log_format: LogFormat = "text",
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Take checkpoints of a query that holdfast does not run.

    Runs beside the query, in any language, and only reads its checkpointLocation. Until it is stopped: SIGTERM and
    Ctrl-C end it with a last checkpoint.
    """
    if log_format not in LOG_FORMATS:
        raise InvalidSettings.of("log_format", log_format, f"must be one of {', '.join(LOG_FORMATS)}")
    settings = _settings(ctx.find_object(Configuration) or Configuration(), job, options)
    require_apart("protect", location, home)
    log_to_standard_error(log_format)
    receivers = tuple(receivers_of(alarm or ()))
    with (
        stopping_on_signals(settings.stop_timeout_s, to_the_end=True) as signals,
        about(job_name(job)),
        standard_output_kept_clean(),
    ):
        try:
            with _running(location, home, job, settings, receivers, once, accept_older_directory) as running:
                signals.stop_with(running.begin_stop)
                _last(running, once)
        except (StopAsked, KeyboardInterrupt):
            print_message("holdfast: stopped before the job was changed")
            if as_json:
                print_json(ProtectDocument(job=job, home=home, location=whole(location)))
            return
    _report(_document(location, home, job), as_json)


def _settings(configured: Configuration, job: str, options: dict[str, Any]) -> Settings:
    given = {name: value for name, value in settings_in(configured.of_run(job)).items() if name in OPTIONS}
    return Settings.merged(None, {**given, **{name: value for name, value in options.items() if value is not None}})


@contextmanager
def _running(
    location: str,
    home: str,
    job: str,
    settings: Settings,
    receivers: tuple[Any, ...],
    once: bool,
    accept_older: bool,
) -> Iterator["Running"]:
    from holdfast.runtime.protecting.launching import protect
    from holdfast.runtime.protecting.query import ProtectedQuery
    from holdfast.runtime.run.environment import Environment
    from holdfast.runtime.run.running import Running
    from holdfast.workdir.factory import readable_directory

    watchdog = Watchdog.of(os.environ, os.getpid())
    around = replace(Environment.real(identity=settings.identity_in(os.environ)), alive=watchdog.alive)
    files = readable_directory(whole(location))
    with watchdog.while_it_starts():
        place = _place(files, home, job, settings, around)
        found = _found(files, readable_directory(above("protect", whole(location))), wait=not once)
        query = ProtectedQuery(files, found.query, around.clock)
        running = Running(
            place,
            query,
            lambda threads, finished: protect(
                place, found, query, threads, finished, receivers, accept_older=accept_older
            ),
        )
    yield running


def _place(files: "WorkDirectory", home: str, job: str, settings: Settings, around: "Environment") -> "JobLocation":
    """Refuses a home that cannot be used before anything is waited for."""
    from holdfast.repository.self_report import NAME as STATE_FILE
    from holdfast.runtime.run.job_location import JobLocation
    from holdfast.storage.metered import Meter
    from holdfast.storage.urls import open_store, require_create_if_absent
    from holdfast.workdir.factory import local_place

    meter = Meter(around.clock.monotonic)
    home = home.rstrip("/") or home
    root = open_store(home, deadline=settings.storage_deadline_s, meter=meter)
    require_create_if_absent(root)
    name = job_name(job)
    place = JobLocation(name, home, root.scoped(name), files, settings, around, meter, root=root)
    try:
        return replace(place, state_file=local_place(None, home) / name / STATE_FILE)
    except InvalidSettings:  # a user without a home directory
        return place


def _found(files: "WorkDirectory", above: "WorkDirectory", *, wait: bool) -> "FoundDirectory":
    """A service may be started before the query whose directory it protects."""
    from holdfast.runtime.protecting.launching import find

    said = False
    while True:
        try:
            return find(files, above)
        except (NotFound, StorageError) as error:
            if not wait:
                raise
            if not said:
                begin_step(f"waiting for a committed batch in {files.location}: {error.message}")
                said = True
        threading.Event().wait(_WAITS_S)


def _last(running: "Running", once: bool) -> None:
    if once:
        with running:  # its end is recorded, too, when the checkpoint fails
            running.checkpoint()
        return
    while not running.await_termination("1s"):
        pass


def _document(location: str, home: str, job: str) -> ProtectDocument:
    seen = observe(home, job)
    newest = next((each for each in checkpoints(seen) if each.usable), None)
    return ProtectDocument(
        job=job,
        home=home,
        location=whole(location),
        checkpoint=None if newest is None else newest.id,
        barrier_batch_id=None if newest is None else newest.barrier_batch_id,
    )


def _report(document: ProtectDocument, as_json: bool) -> None:
    if as_json:
        print_json(document)
    elif document.checkpoint is None:
        answer().print(f"job {document.job!r} has no checkpoint of {document.location} yet", soft_wrap=True)
    else:
        answer().print(
            f"checkpoint {document.checkpoint} of job {document.job!r} holds {document.location} at batch "
            f"{document.barrier_batch_id}",
            soft_wrap=True,
        )


protect = with_options_of(OPTIONS, protect_query)
