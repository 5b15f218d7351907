"""`holdfast doctor`: what is wrong, why, and what to change; from logs, or from a job's history."""

import os
import stat
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AsJson, job_option
from holdfast.cli.output import answer, json_text, print_message, write_json
from holdfast.errors import InvalidSettings
from holdfast.showing import visible

if TYPE_CHECKING:
    from holdfast.doctor.reports.document import Report

_CRITICAL = 1
_STANDARD_INPUT = "-"


class Form(Enum):
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"


def doctor(
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOGS",
            show_default=False,
            help="Files, directories, globs, URLs; - or none: standard input, a paste.",
        ),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(
            "--home", envvar="HOLDFAST_HOME", metavar="URL", help="The home of the job, if there are no LOGS."
        ),
    ] = None,
    job: Annotated[str | None, job_option("The job whose history is examined.")] = None,
    as_json: AsJson = False,
    form: Annotated[Form, typer.Option("--format", help="The format of the report.")] = Form.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report to this file.")
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Mask secrets, hosts and addresses.")] = False,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Also store every event of LOGS there, as Parquet.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep reading the directory LOGS, and print new findings. Ctrl-C ends it.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="The Spark master to read LOGS with. Default: this machine."),
    ] = None,
) -> None:
    """Find out why checkpoints fail, from a job or from logs.

    Exit code 0: nothing critical. 1: something critical. 3: nothing to examine. 6: a URL could not be read.
    """
    from holdfast.doctor.reports.redaction import Redactor
    from holdfast.finding import worst_is_critical

    redactor = Redactor() if redact else None
    if follow:
        critical = _follow(logs or [], as_json, redactor, master)
    else:
        logs = logs or ([_STANDARD_INPUT] if home is None and job is None and _is_fed() else None)
        report = _from_logs(logs, keep, master) if logs else _from_history(home, job)
        _write(redactor.report(report) if redactor else report, as_json, form, output)
        critical = worst_is_critical(report.findings)
    if critical:
        raise typer.Exit(_CRITICAL)


def _is_fed() -> bool:
    """Whether somebody pastes on a terminal, or pipes something in, without saying `-`."""
    try:
        if sys.stdin.isatty():
            print_message("Paste a log, a trace or an error message; Ctrl-D on an empty line ends it.")
            return True
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(kind) or stat.S_ISREG(kind)


def _from_history(home: str | None, job: str | None) -> "Report":
    from holdfast.cli.observing import examine
    from holdfast.doctor.reports.document import Report
    from holdfast.history import history_findings

    if home is None or job is None:
        raise InvalidSettings(
            "could not examine anything: neither logs nor a job were given",
            hint="holdfast doctor LOGS..., or - for standard input, or holdfast doctor --home URL --job NAME",
        )
    return Report(findings=history_findings(examine(home, job)), job=job, home=home)


def _from_logs(logs: list[str], keep: str | None, master: str | None) -> "Report":
    from holdfast.cli.reading_logs import examined

    return examined(logs, keep, master)


def _follow(logs: list[str], as_json: bool, redactor: object, master: str | None) -> bool:
    from holdfast.cli.doctor_text import finding_lines
    from holdfast.cli.reading_logs import followed
    from holdfast.doctor.reports.document import Report
    from holdfast.doctor.reports.redaction import Redactor
    from holdfast.finding import Finding

    console = answer()

    def print_finding(finding: Finding) -> None:
        if isinstance(redactor, Redactor):
            (finding,) = redactor.report(Report(findings=(finding,))).findings
        if as_json:
            write_json(finding)
            sys.stdout.flush()
            return
        for line in finding_lines(finding):
            console.print(line, soft_wrap=True)

    return followed(logs, master, print_finding)


def _write(report: "Report", as_json: bool, form: Form, output: Path | None) -> None:
    if as_json:
        _deliver(json_text(report), output)
    elif form is Form.TEXT and output is None:
        from holdfast.cli.doctor_text import lines

        console = answer()
        for line in lines(report):
            console.print(line, soft_wrap=True)
    else:
        _deliver(visible(_written(report, form)), output)


def _written(report: "Report", form: Form) -> str:
    if form is Form.HTML:
        from holdfast.doctor.reports.page import page

        return page(report)
    if form is Form.MARKDOWN:
        from holdfast.doctor.reports.markdown import markdown

        return markdown(report)
    from holdfast.cli.doctor_text import lines

    return "".join(f"{line.plain}\n" for line in lines(report))


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidSettings(
            f"could not write the report to {output}: {error.strerror or error}",
            hint="choose another path for --output",
        ) from None
    print_message(f"wrote {output}")
