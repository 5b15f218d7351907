"""The command line: registers every command, and turns every way a command can end into messages and an exit code.

HoldfastError        its message, `Try: ` its hint; its exit code
wrong usage          the same shape; 2
Ctrl-C               130
reader went away     1, silently
anything else        one line; 1. HOLDFAST_DEBUG=1 shows the traceback
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.cli import checkpoints, collect, copy, doctor, jobs, restore, run, savepoint, show, status, verify
from holdfast.cli.demo import command as demo
from holdfast.cli.output import say
from holdfast.errors import HoldfastError
from holdfast.version import VERSION

# typer has brought its own copy of click since 0.26 and used the real one before; both are reachable from here.
_UsageError = typer.BadParameter.__mro__[1]

_INTERRUPTED = 130

app = typer.Typer(
    name="holdfast",
    help="Checkpoints that hold, for PySpark Structured Streaming.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# One line per command, in the order of the help. A command's module imports what is heavy only when it is called.
app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("jobs")(jobs.jobs)
app.command("status")(status.status)
app.command("checkpoints")(checkpoints.checkpoints)
app.command("show")(show.show)
app.command("restore")(restore.restore)
app.command("verify")(verify.verify)
app.command("collect")(collect.collect)
app.command("doctor")(doctor.doctor)
app.command("copy")(copy.copy)
app.add_typer(savepoint.app, name="savepoint")


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"holdfast {VERSION}\n")
        raise typer.Exit


@app.callback()
def _holdfast(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    _tolerate_narrow_encodings()
    try:
        result = app(args=arguments, prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon_standard_output()
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        return _explain(error)
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    if os.environ.get("HOLDFAST_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, HoldfastError):
        _report(error.message, error.hint)
        return error.exit_code
    if isinstance(error, _UsageError):
        return _explain_usage(error)
    _report(
        f"internal error: {type(error).__name__}: {error}",
        None if os.environ.get("HOLDFAST_DEBUG") else "HOLDFAST_DEBUG=1 shows where it happened; please report it",
    )
    return 1


def _explain_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "holdfast"
    if type(error).__name__ == "NoArgsIsHelpError":
        say(context.get_help() if context else str(error))
    else:
        _report(error.format_message(), f"{command} --help")  # type: ignore[attr-defined]
    return 2


def _report(message: str, hint: str | None) -> None:
    say(f"holdfast: {' '.join(message.split())}")
    if hint:
        say(f"Try: {' '.join(hint.split())}")


def _abandon_standard_output() -> None:
    """So that the interpreter's last flush does not fail on the closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tolerate_narrow_encodings() -> None:
    """A terminal that cannot show a bar gets a question mark instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
