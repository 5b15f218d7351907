"""A job with its health, as the pages show it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from holdfast.cli.health import judged
from holdfast.finding import Finding
from holdfast.repository.documents import CheckpointDetail, JobView
from holdfast.repository.views import Observation, checkpoints
from holdfast.showing import masked

_WORST_FIRST = {"critical": 0, "warning": 1, "well": 2}


@dataclass(frozen=True)
class Judged:
    seen: Observation
    view: JobView
    findings: tuple[Finding, ...]
    history: tuple[CheckpointDetail, ...]
    """Newest first."""

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What makes a page look different."""
        report = self.seen.report
        told = (report.batch, report.published, report.kafka_lag) if report else ()
        codes = tuple((finding.code, finding.severity) for finding in self.findings)
        known = (self.seen.job, self.seen.state.head, tuple(self.seen.verified.items()))
        return (*known, self.view.state, codes, self.view.consecutive_failures, told)


def judge(seen: Observation) -> Judged:
    view, findings = judged(seen)
    return Judged(seen, msgspec.structs.replace(view, home=masked(view.home)), findings, checkpoints(seen))


def worst_first(jobs: Iterable[Judged]) -> list[Judged]:
    return sorted(jobs, key=lambda job: (_WORST_FIRST[job.view.health], job.view.state == "ended", job.view.job))
