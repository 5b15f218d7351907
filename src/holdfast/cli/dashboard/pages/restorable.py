"""What can be restored, as a calendar: a row for each day, a cell for each hour."""

from collections.abc import Sequence
from datetime import UTC, datetime

from holdfast.cli import figures
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.dashboard.pages.layout import path_of
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.entries import Retention

_DAYS = 62


def restorable(job: Judged) -> Markup:
    usable = [each for each in job.history if each.usable and each.completed_at is not None]
    body: Child = _calendar(job, usable) if usable else tag("p", "Nothing can be restored yet.")
    return tag("section", tag("h2", "What can be restored"), _rule(job), body, id="restorable")


def _rule(job: Judged) -> Child:
    run = job.seen.state.pipeline
    return tag("p", _spelt(run.retention), class_="summary") if run is not None and run.retention is not None else None


def _spelt(kept: Retention) -> str:
    parts = [f"the newest {kept.retained}"]
    parts += [f"one of each of {kept.keep_hourly} hours"] if kept.keep_hourly else []
    parts += [f"one of each of {kept.keep_daily} days"] if kept.keep_daily else []
    grace = figures.duration(kept.grace_s * 1000)
    return f"Kept: {', '.join(parts)}, and every savepoint. What is dropped is deleted {grace} later."


def _calendar(job: Judged, usable: Sequence[CheckpointDetail]) -> Markup:
    days: dict[str, list[CheckpointDetail]] = {}
    for each in usable:
        days.setdefault(f"{_done(each):%Y-%m-%d}", []).append(each)
    newest_first = sorted(days.items(), reverse=True)[:_DAYS]
    heads = [tag("th", "day, UTC", scope="col"), *(tag("th", f"{hour:02d}", scope="col") for hour in range(24))]
    heads.append(tag("th", "savepoints", scope="col"))
    made = tag(
        "table",
        tag("thead", tag("tr", heads)),
        tag("tbody", [_day(job, day, kept) for day, kept in newest_first]),
        class_="calendar",
        id="calendar",
    )
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="calendar")


def _day(job: Judged, day: str, kept: Sequence[CheckpointDetail]) -> Markup:
    hours: dict[int, list[CheckpointDetail]] = {}
    for each in kept:
        hours.setdefault(_done(each).hour, []).append(each)
    cells = [_hour(job, day, hour, hours.get(hour, ())) for hour in range(24)]
    named = [(_link(job, each, each.name or "", "savepoint"), " ") for each in kept if each.name]
    return tag("tr", tag("th", day, scope="row"), cells, tag("td", named, data_label="savepoints"), data_day=day)


def _hour(job: Judged, day: str, hour: int, kept: Sequence[CheckpointDetail]) -> Markup:
    """Leads to the newest checkpoint of the hour."""
    if not kept:
        return tag("td")
    newest = max(kept, key=_done)
    link = _link(job, newest, str(len(kept)), "hour", f"{day} {hour:02d}:00, ")
    return tag("td", link, data_hour=hour, data_label=f"{hour:02d} h")


def _link(job: Judged, each: CheckpointDetail, text: str, kind: str, when: str = "") -> Markup:
    label = (
        f"{when}{text} restorable, newest #{each.id} of {_done(each):%H:%M:%S}" if when else f"savepoint {each.name}"
    )
    until = f", its source is kept until about {each.source_until:%Y-%m-%d %H:%M} UTC" if each.source_until else ""
    gone = ", its source is gone" if each.source_gone else ""
    warned = f"{kind} gone" if each.source_gone else kind
    title = f"{label}{until}{gone}"
    return tag("a", text, href=f"{path_of(job)}/checkpoints/{each.id}", class_=warned, title=title, aria_label=title)


def _done(each: CheckpointDetail) -> datetime:
    assert each.completed_at is not None
    return each.completed_at.astimezone(UTC)
