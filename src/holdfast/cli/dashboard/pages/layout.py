"""What the pages share: the frame, tables, times, findings."""

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from holdfast.cli import figures
from holdfast.cli.dashboard.judging import Judged
from holdfast.cli.dashboard.markup import Child, Markup, tag
from holdfast.cli.home_reader import HomeReading
from holdfast.finding import Finding
from holdfast.repository.documents import CheckpointDetail
from holdfast.showing import shown

STATES = {
    "running": ("●", "running"),
    "ended": ("○", "ended"),
    "lost": ("✕", "not running"),
    "never_run": ("○", "new"),
}
_META = (
    tag("meta", charset="utf-8"),
    tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
)
_MARKS = {"critical": "✕", "warning": "!", "info": "i", "well": "●"}


def whole_page(title: str, reading: HomeReading, now: datetime, *content: Child, stream: str = "") -> str:
    head = tag(
        "head",
        *_META,
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
        data_now=iso(now),
    )
    return "<!doctype html>" + tag("html", head, body, lang="en")


def _header(reading: HomeReading) -> Markup:
    return tag(
        "header",
        tag("a", "holdfast", href="/", class_="brand"),
        tag("span", shown(reading.home), class_="home"),
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
    at = ("What is shown is from ", time_of(reading.at), ".") if reading.at else "Nothing could be read yet."
    since = (" since ", time_of(reading.failing_since)) if reading.failing_since else ""
    return tag(
        "div", tag("b", "The home is unreachable", since, ". "), at, tag("p", shown(reading.failure)), class_="away"
    )


def loading(reading: HomeReading) -> list[Child]:
    """The home is being read for the first time. The stream renews the page meanwhile."""
    text = tag("p", "The home is being read for the first time.", id="loading")
    if not reading.names:
        return [text]
    done = f"{reading.read} of {reading.names}"
    bar = tag("progress", max=reading.names, value=reading.read, aria_label="jobs that have been read")
    return [text, tag("p", bar, " ", done, class_="loading")]


def loading_page(reading: HomeReading, now: datetime) -> str:
    return whole_page("Loading", reading, now, tag("h1", "Please wait"), *loading(reading))


def error_page(reading: HomeReading, now: datetime, status: int, message: str) -> str:
    return whole_page(str(status), reading, now, tag("h1", f"{status}"), tag("p", message), tag("a", "Jobs", href="/"))


def refused_page(status: int, message: str) -> str:
    """For somebody who may see nothing, so not even which home this is. Without style: that takes a token, too."""
    word = tag("input", type="password", name="token", required=True, autocomplete="off")
    ask = tag("form", tag("label", "Token ", word), " ", tag("button", "Enter"), action="/") if status == 401 else None
    head = tag("head", *_META, tag("title", "holdfast"))
    body = tag("body", tag("main", tag("h1", "holdfast"), tag("p", message), ask))
    return "<!doctype html>" + tag("html", head, body, lang="en")


def collected_page(reading: HomeReading, job: str, said: str, now: datetime) -> str:
    back = tag("p", tag("a", f"← {job}", href=path_to(job)))
    return whole_page("Collect", reading, now, back, tag("h1", f"{job}: collect"), tag("p", said, id="collected"))


def table(name: str, heads: Sequence[str], rows: Sequence[Markup]) -> Markup:
    """Sortable by each column, with script."""
    columns = [tag("th", tag("button", head, type="button"), scope="col") for head in heads]
    body = (tag("thead", tag("tr", columns)), tag("tbody", rows))
    made = tag("table", body, class_=f"sortable {name}", id=name)
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=name)


def cell(label: str, content: Child, *, sort: object, title: str | None = None) -> Markup:
    return tag("td", content, data_label=label, data_sort=sort, title=title)


def copyable(text: str) -> Markup:
    return tag(
        "div", tag("pre", text, tabindex="0"), tag("button", "Copy", type="button", class_="copy"), class_="copyable"
    )


def finding_article(found: Finding) -> Markup:
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


def finished(job: Judged) -> list[CheckpointDetail]:
    """Newest first."""
    return [each for each in job.history if each.status != "in_progress"]


def size(value: float) -> str:
    return figures.size(int(value))


def requests_of(each: CheckpointDetail) -> float | None:
    made = each.requests
    return None if made is None else made.put + made.get + made.list + made.delete


def dollars(value: float) -> str:
    return f"${value:,.2f}" if value >= 0.01 else f"${value:.6f}"


def path_of(job: Judged) -> str:
    return path_to(job.view.job)


def path_to(name: str) -> str:
    return f"/jobs/{quote(name)}"


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_of(at: datetime | None) -> Child:
    """Absolute in the page; the script shows its age."""
    if at is None:
        return "-"
    return tag("time", f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", datetime=iso(at))
