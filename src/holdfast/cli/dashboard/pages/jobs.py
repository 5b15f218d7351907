"""The jobs of a home, worst first."""

import shlex
from collections.abc import Sequence
from datetime import datetime

from holdfast.cli import figures
from holdfast.cli.dashboard.board import Board
from holdfast.cli.dashboard.charts import spark_line
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.board import board_section
from holdfast.cli.dashboard.pages.lag import lag_cell
from holdfast.cli.dashboard.pages.layout import STATES, cell, finished, loading, path_of, table, time_of, whole_page
from holdfast.cli.home_reader import HomeReading
from holdfast.repository.documents import CheckpointDetail
from holdfast.showing import shown

_HEADS = ("job", "state", "newest checkpoint", "failures", "batch", "lag", "last checkpoints", "what needs attention")


def jobs_page(reading: HomeReading, jobs: Sequence[Judged], now: datetime, board: Board | None = None) -> str:
    ill = sum(job.view.health != "well" for job in jobs)
    summary = f"{ill} need attention · {len(jobs) - ill} well" if jobs else "No job yet"
    content: list[Child] = [tag("h1", "Jobs"), tag("p", summary, class_="summary", id="summary")]
    if reading.is_first:
        content = [tag("h1", "Jobs"), *loading(reading)]
    elif jobs:
        content += [_filter(), _jobs_table(jobs, now)]
    elif reading.at is not None and not reading.unreadable:
        command = f"holdfast run pipeline.py --home {shlex.quote(shown(reading.home))}"
        content.append(tag("p", "Start one: ", tag("code", command)))
    for name, why in reading.unreadable.items():
        content.append(tag("div", tag("b", f"Job {name} cannot be read. "), shown(why), class_="away"))
    return whole_page("Jobs", reading, now, board_section(board), *content)


def _filter() -> Markup:
    return tag("label", "Filter ", tag("input", type="search", id="filter", autocomplete="off"), class_="filter")


def _jobs_table(jobs: Sequence[Judged], now: datetime) -> Markup:
    rows = [_job_row(job, now) for job in jobs]
    return table("jobs", _HEADS, rows)


def _job_row(job: Judged, now: datetime) -> Markup:
    view = job.view
    last, report = view.last_completed, job.seen.report
    mark, word = STATES[view.state]
    worst = job.findings[0] if job.findings else None
    newest: Child = (f"#{last.id} · ", time_of(last.completed_at)) if last and last.completed_at else "none"
    note: Child = (
        "" if worst is None else tag("a", f"{worst.code}: {shown(worst.symptom)}", href=f"{path_of(job)}#findings")
    )
    durations = [(_named(each), None if each.failure else float(each.duration_ms or 0)) for each in finished(job)[:20]]
    return tag(
        "tr",
        cell("job", tag("a", view.job, href=path_of(job)), sort=view.job),
        cell("state", tag("span", f"{mark} {word}", class_=f"state {view.state}"), sort=word),
        cell("newest checkpoint", newest, sort=view.seconds_since_last_completed or 0),
        cell("failures", view.consecutive_failures, sort=view.consecutive_failures),
        cell(
            "batch", report.batch if report and report.batch is not None else "-", sort=report.batch if report else -1
        ),
        lag_cell(view.kafka_lag),
        cell("last checkpoints", spark_line(durations[::-1], figures.duration) if durations else "-", sort=0),
        cell("what needs attention", note, sort=worst.code if worst else ""),
        class_=view.health,
        data_job=view.job,
    )


def _named(each: CheckpointDetail) -> str:
    return "a checkpoint" if each.id is None else f"#{each.id}"
