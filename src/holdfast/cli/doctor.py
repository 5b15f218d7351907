"""`holdfast doctor`: what is wrong, why, and what to change; from logs, or from a job's history."""

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.options import AsJson
from holdfast.cli.output import answer, print_json, say
from holdfast.errors import InvalidSettings

if TYPE_CHECKING:
    from holdfast.doctor.reports.document import Report

_CRITICAL = 1


class Form(Enum):
    TEXT = "text"
    MARKDOWN = "markdown"
    HTML = "html"


def doctor(
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOGS]...", help="Files, directories, globs or URLs; - for standard input.", show_default=False
        ),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option("--home", envvar="HOLDFAST_HOME", metavar="URL", help="Where the job's checkpoints are."),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option("--job", envvar="HOLDFAST_JOB", metavar="NAME", help="The job whose history is examined."),
    ] = None,
    as_json: AsJson = False,
    form: Annotated[Form, typer.Option("--format", help="How the report is written.")] = Form.TEXT,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report there instead.")
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Mask secrets, hosts and addresses.")] = False,
) -> None:
    """Findings from Flink and Spark logs, or from a job's history.

    Exit code 0: nothing critical. 1: something critical.
    """
    from holdfast.doctor.finding import worst_is_critical
    from holdfast.doctor.reports.redaction import Redactor

    report = _from_logs(logs) if logs else _from_history(home, job)
    if redact:
        report = Redactor().report(report)
    _write(report, as_json, form, output)
    if worst_is_critical(report.findings):
        raise typer.Exit(_CRITICAL)


def _from_history(home: str | None, job: str | None) -> "Report":
    from holdfast.cli.observing import observe
    from holdfast.doctor.history import history_findings
    from holdfast.doctor.reports.document import Report

    if home is None or job is None:
        raise InvalidSettings(
            "could not examine anything: neither logs nor a job were given",
            hint="holdfast doctor LOGS..., or holdfast doctor --home URL --job NAME",
        )
    return Report(findings=history_findings(observe(home, job)), job=job, home=home)


def _from_logs(logs: list[str]) -> "Report":
    raise NotImplementedError


def _write(report: "Report", as_json: bool, form: Form, output: Path | None) -> None:
    if as_json:
        print_json(report)
    elif form is Form.TEXT and output is None:
        from holdfast.cli.doctor_text import lines

        console = answer()
        for line in lines(report):
            console.print(line)
    else:
        _deliver(_written(report, form), output)


def _written(report: "Report", form: Form) -> str:
    from holdfast.doctor.reports.markdown import markdown
    from holdfast.doctor.reports.page import page

    return page(report) if form is Form.HTML else markdown(report)


def _deliver(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidSettings(
            f"could not write the report to {output}: {error.strerror or error}", hint="another path for --output"
        ) from None
    say(f"wrote {output}")
