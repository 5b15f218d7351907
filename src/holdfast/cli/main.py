"""The command line: turns every end of a command into messages and an exit code.

HoldfastError        its message, `Try: ` its hint; its exit code
wrong usage          the same form; 2
Ctrl-C, SIGTERM      one line; 130, 143
reader closed pipe   1, silently
output not writable  one line; 1
anything else        one line; 1. The traceback goes to a file that is named; HOLDFAST_DEBUG=1 shows it

With `--json` standard output has one document in each of these cases, the error in it.
"""

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from holdfast.cli import completion
from holdfast.cli.commands import LISTED, WITH_SUBCOMMANDS, AllCommands
from holdfast.cli.configuration import NAME as TOML
from holdfast.cli.configuration import read_configuration
from holdfast.cli.interrupting import Interrupt, interruptible
from holdfast.cli.output import print_message, write_document
from holdfast.cli.reading import wants_json
from holdfast.cli.standard_streams import with_standard_streams
from holdfast.cli.tracebacks import TRACEBACKS
from holdfast.errors import HoldfastError, StopOverdue
from holdfast.showing import shown
from holdfast.spark.uncaught import leave_at_once
from holdfast.version import VERSION

_SUBCOMMANDS = ("create", "delete", "list", "test")

# typer includes its own copy of click since 0.26 and used the real one before; both are reachable from here.
_UsageError = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="holdfast",
    cls=AllCommands,
    help="Back up a running PySpark Structured Streaming query, and restore its state and output together.",
    epilog="Every option is also a variable: --interval of run is HOLDFAST_INTERVAL, --limit of checkpoints is "
    "HOLDFAST_CHECKPOINTS_LIMIT. The file holdfast.toml has settings of jobs and profiles.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "HOLDFAST"},
)

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="HOLDFAST_CONFIG", metavar="FILE", show_default=False, help=f"Default: {TOML} here, if any."
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", envvar="HOLDFAST_PROFILE", metavar="NAME", show_default=False, help=f"A profile of {TOML}."
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"holdfast {VERSION}\n")
        raise typer.Exit


@app.callback()
def _holdfast(
    ctx: typer.Context,
    config: Config = None,
    profile: Profile = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    found = read_configuration(config, profile, Path.cwd())
    ctx.obj = found
    given = {"home": found.home, "job": found.job, "alarm": found.alarms}
    defaults: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    groups = {group: dict.fromkeys(_SUBCOMMANDS, defaults) for group in WITH_SUBCOMMANDS}
    ctx.default_map = dict.fromkeys(LISTED, defaults) | groups


def main(arguments: Sequence[str] | None = None) -> int:
    closed = with_standard_streams()
    if completion.is_asked_for(os.environ):
        completion.prepare()
    _tolerate_narrow_encodings()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_standard_output()
        return 1
    except OSError as error:
        _abandon_standard_output()
        print_message(f"holdfast: could not write to standard output: {error.strerror or error}")
        return 1
    if closed is not None and closed.used:
        print_message("holdfast: could not write to standard output: it is closed")
        return code or 1
    return code


def _run(arguments: Sequence[str]) -> int:
    """The command, and its JSON document."""
    ended = Ended(0)
    interrupt = Interrupt()
    try:
        with interruptible(arguments, lambda code: _report_interrupted(arguments, code)) as interrupt:
            result = app(args=arguments, prog_name="holdfast", standalone_mode=False)
        ended = Ended(result if isinstance(result, int) else 0)
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        ended = Ended(interrupt.exit_code, "interrupted")
    except SystemExit as error:
        ended = Ended(error.code if isinstance(error.code, int) else 1)
    except Exception as error:
        if isinstance(error, OSError) and _is_about_standard_output(error):
            raise
        ended = _explain(error) if interrupt.number is None else Ended(1)
    if interrupt.number is not None and ended.exit_code != 0:
        ended = _interrupted(interrupt.exit_code, at_once=True)
    elif ended.exit_code == interrupt.exit_code:  # what typer makes of a KeyboardInterrupt, such as that of PySpark
        ended = _interrupted(interrupt.exit_code)
    write_document(ended.document() if ended.message and wants_json(arguments) else None)
    if ended.at_once:
        leave_at_once(ended.exit_code)
    return ended.exit_code


def _interrupted(exit_code: int, at_once: bool = False) -> "Ended":
    print_message("holdfast: interrupted")
    return Ended(exit_code, "interrupted", at_once=at_once)


def _report_interrupted(arguments: Sequence[str], exit_code: int) -> None:
    """Called by another thread, because the command's own thread is blocked."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a progress bar hides the cursor
    ended = _interrupted(exit_code)
    write_document(ended.document() if wants_json(arguments) else None)
    sys.stdout.flush()


@dataclass(frozen=True)
class Ended:
    exit_code: int
    message: str | None = None
    """None when it did not fail with an error."""
    hint: str | None = None
    at_once: bool = False
    """Without waiting for threads."""

    def document(self) -> dict[str, Any]:
        return {"message": self.message, "hint": self.hint, "exit_code": self.exit_code}


def _explain(error: Exception) -> Ended:
    if os.environ.get("HOLDFAST_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, HoldfastError):
        ended = _report(error.exit_code, error.message, error.hint)
        return replace(ended, at_once=isinstance(error, StopOverdue))
    if isinstance(error, _UsageError):
        return _explain_usage(error)
    return _report(1, f"internal error: {type(error).__name__}: {error}", _how_to_report(error))


def _how_to_report(error: Exception) -> str | None:
    if os.environ.get("HOLDFAST_DEBUG"):
        return None
    if (kept := TRACEBACKS.keep(error)) is None:
        return "report it with what HOLDFAST_DEBUG=1 shows"
    return f"report it with {kept}, which has the traceback, and with the command"


def _explain_usage(error: Exception) -> Ended:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "holdfast"
    if type(error).__name__ == "NoArgsIsHelpError":
        print_message(context.get_help() if context else str(error))
        return Ended(2, "no command was given", f"{command} --help")
    return _report(2, error.format_message(), f"{command} --help")  # type: ignore[attr-defined]


def _report(exit_code: int, message: str, hint: str | None) -> Ended:
    print_message(f"holdfast: {' '.join(message.split())}")
    if hint:
        print_message(f"Try: {' '.join(hint.split())}")
    return Ended(exit_code, shown(message), None if hint is None else shown(hint))


def _is_about_standard_output(error: OSError) -> bool:
    """A full disk or a closed pipe behind standard output; an error about a file names the file."""
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF)


def _abandon_standard_output() -> None:
    """Keeps the interpreter's last flush from failing on it again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tolerate_narrow_encodings() -> None:
    """A terminal that cannot encode a bar shows a question mark instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
