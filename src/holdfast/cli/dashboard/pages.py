"""The pages: what is read, as HTML that works without script as far as reading goes. Pure."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from holdfast.cli import figures
from holdfast.cli.dashboard.charts import Mark, bars, spark_line, waterfall
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.happenings import happenings
from holdfast.cli.home_reader import HomeReading
from holdfast.finding import Finding
from holdfast.repository.views import CheckpointDetail
from holdfast.showing import masked, shown

_POINTS = 120
"""How many checkpoints the charts show."""
_ROWS = 100
_STATES = {
    "running": ("●", "running"),
    "ended": ("○", "ended"),
    "lost": ("✕", "not running"),
    "never_run": ("○", "new"),
}
_MARKS = {"critical": "✕", "warning": "!", "info": "i", "well": "●"}


def whole_page(title: str, reading: HomeReading, now: datetime, *content: Child, stream: str = "") -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · holdfast"),
        tag("link", rel="stylesheet", href="/static/style.css"),
        tag("link", rel="icon", href="/static/icon.svg"),
        tag("script", src="/static/page.js", defer=True),
    )
    body = tag(
        "body",
        tag("a", "Skip to content", href="#main", class_="skip"),
        _header(reading),
        tag("main", _warning(reading), *content, id="main", tabindex="-1"),
        data_stream=f"/api/v1/stream{stream}",
        data_now=_iso(now),
    )
    return "<!doctype html>" + tag("html", head, body, lang="en")


def _header(reading: HomeReading) -> Markup:
    return tag(
        "header",
        tag("a", "holdfast", href="/", class_="brand"),
        tag("span", masked(reading.home), class_="home"),
        tag(
            "nav",
            tag("a", "Jobs", href="/"),
            tag("a", "Doctor", href="/doctor"),
            tag("a", "API", href="/api/v1/openapi.json"),
            aria_label="Pages",
        ),
        tag("span", "static", id="live", role="status"),
        tag("button", "Theme", type="button", id="theme"),
    )


def _warning(reading: HomeReading) -> Child:
    if reading.failure is None:
        return None
    at = ("What is shown is from ", _time(reading.at), ".") if reading.at else "Nothing could be read yet."
    since = (" since ", _time(reading.failing_since)) if reading.failing_since else ""
    return tag(
        "div", tag("b", "The home is unreachable", since, ". "), at, tag("p", shown(reading.failure)), class_="away"
    )


def jobs_page(reading: HomeReading, jobs: Sequence[Judged], now: datetime) -> str:
    ill = sum(job.view.health != "well" for job in jobs)
    summary = f"{ill} need attention · {len(jobs) - ill} well" if jobs else "No job yet"
    content: list[Child] = [tag("h1", "Jobs"), tag("p", summary, class_="summary", id="summary")]
    if reading.at is None and reading.failure is None:
        content = [tag("h1", "Jobs"), tag("p", "The home is being read for the first time. Please wait.", id="loading")]
    elif jobs:
        content += [_filter(), _jobs_table(jobs, now)]
    elif reading.at is not None and not reading.unreadable:
        command = f"holdfast run pipeline.py --home {masked(reading.home)}"
        content.append(tag("p", "Start one: ", tag("code", command)))
    for name, why in reading.unreadable.items():
        content.append(tag("div", tag("b", f"Job {name} cannot be read. "), shown(why), class_="away"))
    return whole_page("Jobs", reading, now, *content)


def _filter() -> Markup:
    return tag("label", "Filter ", tag("input", type="search", id="filter", autocomplete="off"), class_="filter")


def _jobs_table(jobs: Sequence[Judged], now: datetime) -> Markup:
    rows = [_job_row(job, now) for job in jobs]
    heads = ("job", "state", "newest checkpoint", "failures", "batch", "last checkpoints", "what needs attention")
    return table("jobs", heads, rows)


def _job_row(job: Judged, now: datetime) -> Markup:
    view = job.view
    last, report = view.last_completed, job.seen.report
    mark, word = _STATES[view.state]
    worst = job.findings[0] if job.findings else None
    newest: Child = (f"#{last.id} · ", _time(last.completed_at)) if last and last.completed_at else "none"
    note: Child = (
        "" if worst is None else tag("a", f"{worst.code}: {shown(worst.symptom)}", href=f"{_job(job)}#findings")
    )
    durations = [None if each.failure else float(each.duration_ms or 0) for each in _finished(job)[:20]][::-1]
    return tag(
        "tr",
        cell("job", tag("a", view.job, href=_job(job)), sort=view.job),
        cell("state", tag("span", f"{mark} {word}", class_=f"state {view.state}"), sort=word),
        cell("newest checkpoint", newest, sort=view.seconds_since_last_completed or 0),
        cell("failures", view.consecutive_failures, sort=view.consecutive_failures),
        cell(
            "batch", report.batch if report and report.batch is not None else "-", sort=report.batch if report else -1
        ),
        cell("last checkpoints", spark_line(durations) if durations else "-", sort=0),
        cell("what needs attention", note, sort=worst.code if worst else ""),
        class_=view.health,
        data_job=view.job,
    )


def job_page(reading: HomeReading, job: Judged, now: datetime) -> str:
    view = job.view
    mark, word = _STATES[view.state]
    owner = view.owner
    owned = f"{owner.host}, pid {owner.pid}, run {owner.fencing_epoch}" if owner else "nobody"
    title = tag("h1", view.job, " ", tag("span", f"{mark} {word}", class_=f"state {view.state}"))
    content = [
        title,
        tag("p", "Owner ", owned, (" since ", _time(owner.started_at)) if owner else None, class_="summary"),
        _facts(job),
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
            (f"#{last.id}, batch {last.barrier_batch_id}, ", _time(last.completed_at)) if last else "none",
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
        facts.append(("ended", (_time(view.ended_at), f": {shown(view.ended_reason or '')}")))
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts")


def _findings(findings: Sequence[Finding]) -> Markup:
    if not findings:
        return tag("section", tag("h2", "Findings"), tag("p", "Nothing needs attention."), id="findings")
    return tag("section", tag("h2", "Findings"), [_finding(each) for each in findings], id="findings")


def _finding(found: Finding) -> Markup:
    fix = "\n".join(shown(line) for line in found.fix)
    evidence = [tag("li", shown(f"{each.text}")) for each in found.evidence[:5]]
    return tag(
        "article",
        tag("h3", f"{_MARKS[found.severity]} {found.code}"),
        tag("p", tag("b", shown(found.symptom)), ": ", shown(found.cause)),
        copyable(fix) if fix else None,
        tag("details", tag("summary", "Evidence"), tag("ul", evidence)) if evidence else None,
        class_=f"finding {found.severity}",
    )


def copyable(text: str) -> Markup:
    return tag(
        "div", tag("pre", text, tabindex="0"), tag("button", "Copy", type="button", class_="copy"), class_="copyable"
    )


def _finished(job: Judged) -> list[CheckpointDetail]:
    """Newest first."""
    return [each for each in job.history if each.status != "in_progress"]


def _charts(job: Judged) -> Markup:
    points = _finished(job)[:_POINTS][::-1]
    if not points:
        return tag("p", "No checkpoint yet: charts begin with the first.")

    def of(parts: Callable[[CheckpointDetail], Iterable[tuple[str, float | None]]]) -> list[Mark]:
        return [_mark(each, () if each.failure else parts(each)) for each in points]

    def one(value: Callable[[CheckpointDetail], float | None]) -> list[Mark]:
        return of(lambda each: [("", value(each))])

    charts = [
        bars("duration by phase", of(_phases), figures.duration),
        bars("new bytes", one(lambda each: each.bytes_new), _size),
        bars("size", one(lambda each: each.bytes_total), _size),
        bars("requests", one(_requests), lambda value: f"{value:.0f}"),
    ]
    return tag("section", tag("h2", f"Last {len(points)} checkpoints"), tag("div", charts, class_="charts"))


def _size(value: float) -> str:
    return figures.size(int(value))


def _phases(each: CheckpointDetail) -> list[tuple[str, float | None]]:
    return [(phase.name, float(phase.ms)) for phase in each.phases] or [("all", float(each.duration_ms or 0))]


def _requests(each: CheckpointDetail) -> float | None:
    made = each.requests
    return None if made is None else made.put + made.get + made.list + made.delete


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
        cells += [tag("a", text, href=f"{_job(job)}/checkpoints/{each.id}", class_=kind, title=f"#{each.id}"), " "]
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
        action=f"{_job(job)}/compare",
        class_="compare",
    )


def _checkpoints_table(job: Judged) -> Markup:
    heads = ("id", "status", "batch", "triggered", "duration", "new", "size", "why")
    rows = [_checkpoint_row(job, each) for each in job.history[:_ROWS]]
    note = f"The newest {_ROWS} of {len(job.history)}." if len(job.history) > _ROWS else None
    return tag("div", table("checkpoints", heads, rows), tag("p", note) if note else None)


def _checkpoint_row(job: Judged, each: CheckpointDetail) -> Markup:
    name = f"#{each.id}" + (f" {each.name}" if each.name else "") if each.id is not None else "-"
    link: Child = name if each.id is None else tag("a", name, href=f"{_job(job)}/checkpoints/{each.id}")
    why = f"{each.failure.reason}: {each.failure.message}" if each.failure else each.unusable_because or ""
    return tag(
        "tr",
        cell("id", link, sort=each.id or 0),
        cell("status", each.status, sort=each.status),
        cell("batch", "-" if each.barrier_batch_id is None else each.barrier_batch_id, sort=each.barrier_batch_id or 0),
        cell("triggered", _time(each.triggered_at), sort=each.triggered_at.timestamp()),
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
        tag("li", _time(each.at), " ", each.text, class_="bad" if each.bad else None, data_sequence=each.sequence)
        for each in newest
    ]
    return tag("ol", rows, class_="events")


def checkpoint_page(reading: HomeReading, job: Judged, each: CheckpointDetail, now: datetime) -> str:
    mark = "✕ " if each.failure else ""
    named = f"savepoint {each.name}" if each.name else f"#{each.id}"
    content: list[Child] = [
        tag("p", tag("a", f"← {job.view.job}", href=_job(job))),
        tag("h1", f"{named} ", tag("span", f"{mark}{each.status}", class_=f"state {each.status}")),
        _checkpoint_facts(each),
    ]
    if each.failure:
        content += [tag("h2", "Why it failed"), _failure(each)]
    if each.phases:
        phases = [(phase.name, float(phase.ms)) for phase in each.phases]
        content += [tag("h2", "Phases"), waterfall(phases, figures.duration)]
    if each.slowest_shards:
        content += [tag("h2", "Slowest shards"), _shards(each)]
    if each.usable:
        named_job = f"--home {masked(reading.home)} --job {job.view.job}"
        command = f"holdfast restore {named_job} --checkpoint {each.id} --to ./restored"
        content += [tag("h2", "Restore it"), copyable(command)]
    return whole_page(f"{job.view.job} {named}", reading, now, *content, stream=f"?job={quote(job.view.job)}")


def _failure(each: CheckpointDetail) -> Markup:
    failure = each.failure
    assert failure is not None
    counted = "counted" if failure.counted else "not counted"
    return tag(
        "article",
        tag("h3", f"✕ {failure.reason} ({counted})"),
        tag("p", shown(failure.message)),
        copyable(shown(failure.hint)) if failure.hint else None,
        class_="finding critical",
    )


def _checkpoint_facts(each: CheckpointDetail) -> Markup:
    facts: list[tuple[str, Child]] = [
        ("batch", "-" if each.barrier_batch_id is None else each.barrier_batch_id),
        ("triggered", f"{each.triggered_at:%Y-%m-%d %H:%M:%S} UTC"),
        ("completed", f"{each.completed_at:%Y-%m-%d %H:%M:%S} UTC" if each.completed_at else "-"),
        ("duration", figures.duration(each.duration_ms)),
        ("size", figures.size(each.bytes_total)),
        ("new bytes", figures.size(each.bytes_new)),
        ("reused bytes", figures.size(each.bytes_reused)),
        ("files", "-" if each.files is None else each.files),
        ("shards", f"{each.shards_acknowledged} of {each.shards}" if each.shards is not None else "-"),
        ("run", each.fencing_epoch),
        ("usable", "yes" if each.usable else f"no: {shown(each.unusable_because or each.status)}"),
    ]
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts")


def _shards(each: CheckpointDetail) -> Markup:
    rows = [
        tag(
            "tr",
            cell("shard", shard.id, sort=shard.id),
            cell("took", figures.duration(shard.ms), sort=shard.ms, title=f"{shard.ms} ms"),
            cell("new", figures.size(shard.bytes_new), sort=shard.bytes_new),
            cell("size", figures.size(shard.bytes_total), sort=shard.bytes_total),
            cell("files", shard.files, sort=shard.files),
        )
        for shard in each.slowest_shards
    ]
    return table("shards", ("shard", "took", "new", "size", "files"), rows)


def compare_page(reading: HomeReading, job: Judged, a: CheckpointDetail, b: CheckpointDetail, now: datetime) -> str:
    rows = [_compared(name, value(a), value(b), write) for name, value, write in _COMPARED]
    rows += _compared_phases(a, b)
    heads = ("what", f"#{a.id}", f"#{b.id}", "grew by")
    return whole_page(
        f"{job.view.job} #{a.id} and #{b.id}",
        reading,
        now,
        tag("p", tag("a", f"← {job.view.job}", href=_job(job))),
        tag("h1", f"#{a.id} and #{b.id}: what grew"),
        table("compared", heads, [row for row in rows if row is not None]),
    )


def _compared(name: str, a: float | None, b: float | None, write: Callable[[float], str]) -> Markup | None:
    if a is None and b is None:
        return None
    grew = (b or 0) - (a or 0)
    sign = "+" if grew > 0 else "-" if grew < 0 else "±"
    return tag(
        "tr",
        cell("what", name, sort=name),
        cell("first", "-" if a is None else write(a), sort=a or 0),
        cell("second", "-" if b is None else write(b), sort=b or 0),
        cell("grew by", f"{sign}{write(abs(grew))}", sort=grew),
        data_grew=f"{grew:g}",
        data_what=name,
    )


def _compared_phases(a: CheckpointDetail, b: CheckpointDetail) -> list[Markup | None]:
    first = {phase.name: float(phase.ms) for phase in a.phases}
    second = {phase.name: float(phase.ms) for phase in b.phases}
    names = list(dict.fromkeys([*first, *second]))
    return [_compared(f"phase {name}", first.get(name), second.get(name), figures.duration) for name in names]


_COMPARED: Sequence[tuple[str, Callable[[CheckpointDetail], float | None], Callable[[float], str]]] = (
    ("size", lambda each: each.bytes_total, _size),
    ("new bytes", lambda each: each.bytes_new, _size),
    ("files", lambda each: each.files, lambda value: f"{value:.0f}"),
    ("shards", lambda each: each.shards, lambda value: f"{value:.0f}"),
    ("objects written", lambda each: each.objects_written, lambda value: f"{value:.0f}"),
    ("duration", lambda each: each.duration_ms, figures.duration),
    ("requests", _requests, lambda value: f"{value:.0f}"),
)


def doctor_page(reading: HomeReading, now: datetime, report: Child = None) -> str:
    form = tag(
        "form",
        tag("label", "A stack trace or part of a log", for_="text"),
        tag("textarea", name="text", id="text", rows=14, spellcheck="false", required=True),
        tag("p", tag("label", "or a file ", tag("input", type="file", id="file"))),
        tag("button", "Examine"),
        method="post",
        action="/doctor",
    )
    explained = "Nothing leaves this machine: the text is examined by this process."
    return whole_page("Doctor", reading, now, tag("h1", "Doctor"), tag("p", explained), form, report)


def doctor_report(findings: Sequence[Finding]) -> Markup:
    if not findings:
        return tag("section", tag("h2", "Report"), tag("p", "Nothing known was found in this text."), id="report")
    return tag("section", tag("h2", "Report"), [_finding(each) for each in findings], id="report")


def error_page(reading: HomeReading, now: datetime, status: int, message: str) -> str:
    return whole_page(str(status), reading, now, tag("h1", f"{status}"), tag("p", message), tag("a", "Jobs", href="/"))


def table(name: str, heads: Sequence[str], rows: Sequence[Markup]) -> Markup:
    """Sortable by each column, with script."""
    columns = [tag("th", tag("button", head, type="button"), scope="col") for head in heads]
    body = (tag("thead", tag("tr", columns)), tag("tbody", rows))
    made = tag("table", body, class_=f"sortable {name}", id=name)
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=name)


def cell(label: str, content: Child, *, sort: object, title: str | None = None) -> Markup:
    return tag("td", content, data_label=label, data_sort=sort, title=title)


def _job(job: Judged) -> str:
    return f"/jobs/{quote(job.view.job)}"


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _time(at: datetime | None) -> Child:
    """Absolute in the page; the script shows its age."""
    if at is None:
        return "-"
    return tag("time", f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", datetime=_iso(at))
