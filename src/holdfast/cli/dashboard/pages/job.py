"""One job: owner, findings, charts, what can be restored, checkpoints, events."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from urllib.parse import quote

from holdfast.cli import figures
from holdfast.cli.dashboard.charts import Mark, bars
from holdfast.cli.dashboard.guard import FORM_WORD
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import (
    STATES,
    cell,
    finding_article,
    finished,
    path_of,
    requests_of,
    size,
    table,
    time_of,
    whole_page,
)
from holdfast.cli.happenings import happenings
from holdfast.cli.home_reader import HomeReading
from holdfast.finding import Finding
from holdfast.repository.views import CheckpointDetail
from holdfast.showing import shown

_POINTS = 120
"""How many checkpoints the charts show."""
_ROWS = 100


def job_page(reading: HomeReading, job: Judged, now: datetime, form_word: str | None = None) -> str:
    """`form_word` makes a form of this page an action; None for a reader who may not act."""
    view = job.view
    mark, word = STATES[view.state]
    owner = view.owner
    owned = f"{owner.host}, pid {owner.pid}, run {owner.fencing_epoch}" if owner else "nobody"
    title = tag("h1", view.job, " ", tag("span", f"{mark} {word}", class_=f"state {view.state}"))
    content = [
        title,
        tag("p", "Owner ", owned, (" since ", time_of(owner.started_at)) if owner else None, class_="summary"),
        _facts(job),
        None if form_word is None else _actions(job, form_word),
        _findings(job.findings),
        _charts(job),
        _restorable(job),
        tag("h2", "Checkpoints"),
        _compare_form(job),
        _checkpoints_table(job),
        tag("h2", "Events", id="events"),
        _events(job),
    ]
    return whole_page(view.job, reading, now, *content, stream=f"?job={quote(view.job)}")


def _facts(job: Judged) -> Markup:
    view, report = job.view, job.seen.report
    last = view.last_completed
    facts: list[tuple[str, Child]] = [
        (
            "newest checkpoint",
            (f"#{last.id}, batch {last.barrier_batch_id}, ", time_of(last.completed_at)) if last else "none",
        ),
        ("a start resumes from", f"#{view.last_usable.id}" if view.last_usable else "nothing"),
        ("every", figures.duration(view.interval_s * 1000) if view.interval_s else "-"),
        ("size", figures.size(last.bytes_total) if last else "-"),
        ("failures in a row", view.consecutive_failures),
        ("restarts", view.restarts),
        ("committed batch", report.batch if report and report.batch is not None else "-"),
        ("published batch", report.published if report and report.published is not None else "-"),
    ]
    if view.ended_at is not None:
        facts.append(("ended", (time_of(view.ended_at), f": {shown(view.ended_reason or '')}")))
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts")


def _actions(job: Judged, word: str) -> Markup:
    """They work without script."""
    if not job.view.running:
        return tag("p", "It does not run: there is nobody to ask for a checkpoint.", class_="actions")
    secret = tag("input", type="hidden", name=FORM_WORD, value=word)
    name = tag("input", name="name", id="savepoint", required=True, size=16, pattern="[A-Za-z0-9][A-Za-z0-9._-]*")
    at = f"/api/v1{path_of(job)}"
    return tag(
        "section",
        tag("form", secret, tag("button", "Checkpoint now"), method="post", action=f"{at}/checkpoints"),
        tag(
            "form",
            secret,
            tag("label", "Savepoint ", name),
            " ",
            tag("button", "Create"),
            method="post",
            action=f"{at}/savepoints",
        ),
        class_="actions",
        aria_label="Actions",
    )


def _findings(findings: Sequence[Finding]) -> Markup:
    if not findings:
        return tag("section", tag("h2", "Findings"), tag("p", "Nothing needs attention."), id="findings")
    return tag("section", tag("h2", "Findings"), [finding_article(each) for each in findings], id="findings")


def _charts(job: Judged) -> Markup:
    points = finished(job)[:_POINTS][::-1]
    if not points:
        return tag("p", "No checkpoint yet: charts begin with the first.")

    def of(parts: Callable[[CheckpointDetail], Iterable[tuple[str, float | None]]]) -> list[Mark]:
        return [_mark(each, () if each.failure else parts(each)) for each in points]

    def one(value: Callable[[CheckpointDetail], float | None]) -> list[Mark]:
        return of(lambda each: [("", value(each))])

    charts = [
        bars("duration by phase", of(_phases), figures.duration),
        bars("new bytes", one(lambda each: each.bytes_new), size),
        bars("size", one(lambda each: each.bytes_total), size),
        bars("requests", one(requests_of), lambda value: f"{value:.0f}"),
    ]
    return tag("section", tag("h2", f"Last {len(points)} checkpoints"), tag("div", charts, class_="charts"))


def _phases(each: CheckpointDetail) -> list[tuple[str, float | None]]:
    return [(phase.name, float(phase.ms)) for phase in each.phases] or [("all", float(each.duration_ms or 0))]


def _mark(each: CheckpointDetail, parts: Iterable[tuple[str, float | None]]) -> Mark:
    when = f"{each.triggered_at:%Y-%m-%d %H:%M:%S} UTC"
    why = f" failed: {each.failure.reason}" if each.failure else ""
    known = tuple((name, float(value)) for name, value in parts if value is not None)
    label = f"#{each.id} {when}{why}" if each.id is not None else f"{when}{why}"
    return Mark(label, known)


def _restorable(job: Judged) -> Markup:
    """By day, then by hour: what a restore can choose from."""
    usable = [each for each in job.history if each.usable and each.completed_at is not None]
    days: dict[str, list[CheckpointDetail]] = {}
    for each in usable:
        days.setdefault(f"{each.completed_at:%Y-%m-%d}", []).append(each)
    rows = [
        tag("tr", tag("th", day, scope="row"), tag("td", len(kept), class_="number"), tag("td", _hours(job, kept)))
        for day, kept in list(days.items())[:31]
    ]
    body: Child = (
        tag("table", tag("tbody", rows), class_="calendar") if rows else tag("p", "Nothing can be restored yet.")
    )
    return tag("section", tag("h2", "What can be restored"), body)


def _hours(job: Judged, kept: Sequence[CheckpointDetail]) -> list[Child]:
    cells: list[Child] = []
    for each in kept[:24]:
        text = each.name or f"{each.completed_at:%H:%M}"
        kind = "savepoint" if each.name else "hour"
        cells += [tag("a", text, href=f"{path_of(job)}/checkpoints/{each.id}", class_=kind, title=f"#{each.id}"), " "]
    return cells


def _compare_form(job: Judged) -> Child:
    ids = [each.id for each in job.history if each.status == "completed"]
    if len(ids) < 2:
        return None
    newest, before = ids[0], ids[1]
    return tag(
        "form",
        tag("label", "Compare ", tag("input", name="a", value=before, inputmode="numeric", size=8)),
        tag("label", " with ", tag("input", name="b", value=newest, inputmode="numeric", size=8)),
        tag("button", "Compare"),
        action=f"{path_of(job)}/compare",
        class_="compare",
    )


def _checkpoints_table(job: Judged) -> Markup:
    heads = ("id", "status", "batch", "triggered", "duration", "new", "size", "why")
    rows = [_checkpoint_row(job, each) for each in job.history[:_ROWS]]
    note = f"The newest {_ROWS} of {len(job.history)}." if len(job.history) > _ROWS else None
    return tag("div", table("checkpoints", heads, rows), tag("p", note) if note else None)


def _checkpoint_row(job: Judged, each: CheckpointDetail) -> Markup:
    name = f"#{each.id}" + (f" {each.name}" if each.name else "") if each.id is not None else "-"
    link: Child = name if each.id is None else tag("a", name, href=f"{path_of(job)}/checkpoints/{each.id}")
    why = f"{each.failure.reason}: {each.failure.message}" if each.failure else each.unusable_because or ""
    return tag(
        "tr",
        cell("id", link, sort=each.id or 0),
        cell("status", each.status, sort=each.status),
        cell("batch", "-" if each.barrier_batch_id is None else each.barrier_batch_id, sort=each.barrier_batch_id or 0),
        cell("triggered", time_of(each.triggered_at), sort=each.triggered_at.timestamp()),
        cell(
            "duration", figures.duration(each.duration_ms), sort=each.duration_ms or 0, title=f"{each.duration_ms} ms"
        ),
        cell("new", figures.size(each.bytes_new), sort=each.bytes_new or 0, title=f"{each.bytes_new} bytes"),
        cell("size", figures.size(each.bytes_total), sort=each.bytes_total or 0, title=f"{each.bytes_total} bytes"),
        cell("why", shown(why), sort=why),
        class_="critical" if each.failure and each.failure.counted else None,
        data_id=each.id,
    )


def _events(job: Judged) -> Markup:
    newest = happenings(job.seen.state)[-50:][::-1]
    rows = [
        tag("li", time_of(each.at), " ", each.text, class_="bad" if each.bad else None, data_sequence=each.sequence)
        for each in newest
    ]
    return tag("ol", rows, class_="events")
