"""The health of a job, as a word and as an exit code."""

from collections.abc import Iterable

import msgspec

from holdfast.errors import JobFailed
from holdfast.finding import Finding
from holdfast.history import health, history_findings
from holdfast.repository.documents import Health, JobView
from holdfast.repository.views import Observation, job_status

STYLES: dict[Health, str] = {"well": "green", "warning": "bold yellow", "critical": "bold red"}


def judged(seen: Observation) -> tuple[JobView, tuple[Finding, ...]]:
    """The status with its health, and the findings that the health is based on: all that need attention."""
    findings = tuple(finding for finding in history_findings(seen) if finding.severity != "info")
    document = msgspec.structs.replace(
        job_status(seen),
        findings=tuple(msgspec.to_builtins(finding) for finding in findings),
        health=health(findings),
    )
    return document, findings


def require_well(seen: Observation, findings: Iterable[Finding]) -> None:
    """For `--health`: raises with the worst critical finding, which decides the exit code."""
    worst = next((finding for finding in findings if finding.severity == "critical"), None)
    if worst is not None:
        hint = "; ".join(line.removeprefix("# ") for line in worst.fix) or None
        raise JobFailed(f"job {seen.job!r} of {seen.home} is not healthy: {worst.code}: {worst.cause}", hint=hint)
