"""One job: owner, findings, charts, what can be restored, checkpoints, events."""

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

import msgspec

from holdfast.cli import figures
from holdfast.cli.dashboard.board import Board
from holdfast.cli.dashboard.guard import FORM_WORD
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.board import board_section
from holdfast.cli.dashboard.pages.lag import lag_section
from holdfast.cli.dashboard.pages.layout import (
    STATES,
    cell,
    dollars,
    finding_article,
    finished,
    path_of,
    table,
    time_of,
    whole_page,
)
from holdfast.cli.dashboard.pages.measures import CHOICES, POINTS, measures
from holdfast.cli.dashboard.pages.restorable import restorable
from holdfast.cli.dashboard.pages.savepoints import savepoints
from holdfast.cli.dashboard.pages.timeline import batches_of, span_form, timeline
from holdfast.cli.dashboard.spans import TimeSpan
from holdfast.cli.happenings import happenings
from holdfast.cli.home_reader import HomeReading
from holdfast.finding import Finding
from holdfast.repository.documents import CheckpointDetail
from holdfast.showing import shown
from holdfast.storage.metered import Usage
from holdfast.storage.prices import dollars_a_month

_ROWS = 100


def job_page(
    reading: HomeReading,
    job: Judged,
    now: datetime,
    form_word: str | None = None,
    last: int | None = None,
    span: TimeSpan | None = None,
    board: Board | None = None,
) -> str:
    """`form_word` makes a form of this page an action; None for a reader who may not act. Drawn are the `last`
    checkpoints, or those of a span of time."""
    view = job.view
    mark, word = STATES[view.state]
    owner = view.owner
    owned = f"{owner.host}, pid {owner.pid}, run {owner.fencing_epoch}" if owner else "nobody"
    title = tag("h1", view.job, " ", tag("span", f"{mark} {word}", class_=f"state {view.state} {view.health}"))
    content = [
        board_section(board),
        title,
        tag("p", "Owner ", owned, (" since ", time_of(owner.started_at)) if owner else None, class_="summary"),
        _findings(job.findings),
        _contents(job),
        _facts(job),
        None if form_word is None else _actions(job, form_word),
        lag_section(view.kafka_lag),
        *_drawn(job, last or POINTS, span, now),
        restorable(job),
        savepoints(job, form_word),
        tag("h2", "Checkpoints", id="history"),
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
    if (cost := _cost_a_month(job)) is not None:
        facts.append(("requests at list price", f"{dollars(cost)} a month"))
    if view.ended_at is not None:
        facts.append(("ended", (time_of(view.ended_at), f": {shown(view.ended_reason or '')}")))
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts")


def _cost_a_month(job: Judged) -> float | None:
    """At the rate of the newest checkpoint, as the metrics say it."""
    newest = next((each.requests for each in job.history if each.status == "completed" and each.requests), None)
    return None if newest is None else dollars_a_month(job.seen.home, Usage(**msgspec.structs.asdict(newest)))


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
        tag("form", secret, tag("button", "Collect"), " what nothing needs", method="post", action=f"{at}/collect"),
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
        return tag("section", tag("p", "Nothing needs attention."), id="findings")
    return tag("section", tag("h2", "Findings"), [finding_article(each) for each in findings], id="findings")


def _contents(job: Judged) -> Markup:
    """The page is long; on a phone many screens."""
    named = [("#lag", "Kafka lag")] if job.view.kafka_lag else []
    named += [("#timeline", "What happened when")] if job.history else []
    named += [("#restorable", "What can be restored"), ("#history", "Checkpoints"), ("#events", "Events")]
    return tag("nav", [tag("a", text, href=place) for place, text in named], aria_label="This page", class_="contents")


def _drawn(job: Judged, last: int, span: TimeSpan | None, now: datetime) -> list[Child]:
    points, batches = _points(job, last, span), batches_of(job)
    if span is not None:
        batches = tuple(each for each in batches if span.has(each.at))
    elif points and len(points) < len(job.history):
        batches = tuple(each for each in batches if each.at >= points[0].triggered_at)
    if not points and not batches:
        none = "No checkpoint yet: charts begin with the first." if span is None else "Nothing is recorded there."
        return [tag("h2", "What happened when"), tag("p", none), span_form(job, span)]
    drawn = timeline(job, points, batches, span, now)
    return [tag("h2", "What happened when"), drawn, span_form(job, span), measures(job, points, batches)]


def _points(job: Judged, last: int, span: TimeSpan | None) -> list[CheckpointDetail]:
    """Oldest first."""
    ended = finished(job)
    if span is not None:
        return [each for each in ended if span.has(each.triggered_at)][: CHOICES[-1]][::-1]
    return ended[: min(last, CHOICES[-1])][::-1]


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
