"""The dashboard over HTTP: who may ask, the JSON, the metrics, the stream, and what it costs the home."""

import gzip
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.cli.dashboard.command import examine, serving
from holdfast.cli.dashboard.guard import Guard
from holdfast.cli.dashboard.judging import judge
from holdfast.cli.dashboard.live import LOOKED_AT_S, Live
from holdfast.cli.dashboard.markup import Markup, tag
from holdfast.cli.dashboard.server import DashboardServer, PageHandler, Site
from holdfast.cli.home_reader import HomeReader, HomeReading
from holdfast.cli.main import main
from holdfast.errors import InvalidSettings
from holdfast.repository.sealing import opened, sealed
from tests.dashboard.homes import beat, dashboard, failing, lag_of, running
from tests.patience import PATIENCE

DOCS = Path(__file__).parents[2] / "docs" / "dashboard.md"
LOOPBACK = {"Host": "127.0.0.1:8080"}


def asked(url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> Any:
    request = urllib.request.Request(url, data, headers or {})
    return urllib.request.build_opener(_NoRedirect).open(request, timeout=PATIENCE)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def status(url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> int:
    try:
        with asked(url, headers, data) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def document(url: str) -> Any:
    with asked(url) as answer:
        return json.load(answer)


def test_text_is_escaped_unless_it_is_markup() -> None:
    assert tag("p", "<b>", Markup("<i></i>"), title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;<i></i></p>'
    assert tag("input", required=True, hidden=False, data_x=None) == "<input required>"
    assert tag("td", data_sort=0) == '<td data-sort="0"></td>', "0 is a value: rows are sorted by it"


@pytest.mark.parametrize(
    ("guard", "method", "headers", "given", "refused"),
    [
        (Guard(frozenset()), "GET", LOOPBACK, None, None),
        (Guard(frozenset()), "GET", {"Host": "localhost"}, None, None),
        (Guard(frozenset()), "GET", {"Host": "[::1]:8080"}, None, None),
        (Guard(frozenset()), "GET", {"Host": "evil.example:8080"}, None, 421),
        (Guard(frozenset()), "GET", {}, None, 421),
        (Guard(frozenset(["board.example"])), "GET", {"Host": "board.example"}, None, None),
        (Guard(frozenset()), "POST", {**LOOPBACK, "Origin": "http://127.0.0.1:8080"}, None, None),
        (Guard(frozenset()), "POST", {**LOOPBACK, "Origin": "http://evil.example"}, None, 403),
        (Guard(frozenset()), "POST", {**LOOPBACK, "Origin": "null"}, None, 403),
        (Guard(frozenset(), "secret"), "GET", LOOPBACK, None, 401),
        (Guard(frozenset(), "secret"), "GET", LOOPBACK, "wrong", 401),
        (Guard(frozenset(), "secret"), "GET", LOOPBACK, "secret", None),
        (Guard(frozenset(), "secret"), "GET", {**LOOPBACK, "Authorization": "Bearer secret"}, None, None),
        (Guard(frozenset(), "secret"), "GET", {**LOOPBACK, "Cookie": "holdfast_token=secret"}, None, None),
        (Guard(frozenset(), None, "X-User"), "GET", LOOPBACK, None, 401),
        (Guard(frozenset(), None, "X-User"), "GET", {**LOOPBACK, "X-User": "ann"}, None, None),
    ],
)
def test_who_may_ask(
    guard: Guard, method: str, headers: dict[str, str], given: str | None, refused: int | None
) -> None:
    answer = guard.refusal(method, headers, given)
    assert (None if answer is None else answer[0]) == refused


def test_a_name_that_points_here_and_a_foreign_page_are_refused(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home") as url:
        assert status(f"{url}/") == 200
        assert status(f"{url}/api/v1/jobs", {"Host": "evil.example"}) == 421
        assert status(f"{url}/doctor", {"Origin": "http://evil.example"}, b"text=x") == 403
        assert status(f"{url}/doctor", {"Origin": url}, b"text=x") == 422
        assert status(f"{url}/api/v1/jobs/orders/checkpoints", {"Origin": url}, b"") == 405
        assert status(f"{url}/static/../server.py") == 404
        assert status(f"{url}/jobs/nobody") == status(f"{url}/jobs/orders/checkpoints/99") == 404
        with asked(f"{url}/") as answer:
            policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_a_token_moves_into_a_cookie(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home", Guard(frozenset(), "secret")) as url:
        assert status(f"{url}/") == status(f"{url}/metrics") == status(f"{url}/api/v1/stream") == 401
        with pytest.raises(urllib.error.HTTPError) as entered:
            asked(f"{url}/jobs/orders?token=secret")
        assert (entered.value.code, entered.value.headers["Location"]) == (303, "/jobs/orders")
        cookie = entered.value.headers["Set-Cookie"]
        entered.value.close()
        assert "HttpOnly; SameSite=Strict" in cookie
        assert status(f"{url}/", {"Cookie": cookie.partition(";")[0]}) == 200


def test_the_json_is_that_of_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing(tmp_path / "home")
    running(tmp_path / "home", "orders", 3)
    home = f"file://{tmp_path / 'home'}"

    def said(*arguments: str) -> Any:
        main([*arguments, "--home", home, "--json"])
        return json.loads(capsys.readouterr().out)

    with dashboard(tmp_path / "home") as url:
        api = f"{url}/api/v1/jobs"
        assert [job["job"] for job in document(api)["jobs"]] == ["payments", "orders"]
        assert document(f"{api}/payments/checkpoints") == said("checkpoints", "--job", "payments")
        assert document(f"{api}/payments/checkpoints/20") == said("show", "20", "--job", "payments")
        status_now = said("status", "--job", "orders")
        found = document(f"{api}/orders")
        for passing in ("seconds_since_last_completed",):
            assert found.pop(passing) <= status_now.pop(passing)
        assert found == status_now
        events = document(f"{api}/orders/events")["events"]
        assert [event["kind"] for event in events] == ["run-started", *["checkpoint-completed"] * 3]
        assert document(f"{api}/orders/events?limit=1")["events"] == events[-1:]


def test_the_openapi_document_names_what_is_served(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home") as url:
        described = document(f"{url}/api/v1/openapi.json")
        for path, operations in described["paths"].items():
            acts = path.endswith(("{job}/checkpoints", "{job}/savepoints"))
            only_acts = path.endswith(("/drop", "/collect"))
            assert list(operations) == (["get", "post"] if acts else ["post"] if only_acts else ["get"])
            assert status(url + path.replace("{job}", "orders").replace("{id}", "2")) == (404 if only_acts else 200)
    named = set(_references(described))
    assert named
    assert {name.rpartition("/")[2] for name in named} <= described["components"]["schemas"].keys()


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        return [v for k, v in node.items() if k == "$ref"] + [r for v in node.values() for r in _references(v)]
    return [r for each in node for r in _references(each)] if isinstance(node, list) else []


def test_metrics_of_all_jobs_are_served(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    running(tmp_path / "home", "refunds", 5)
    with dashboard(tmp_path / "home") as url, asked(f"{url}/metrics") as answer:
        text = answer.read().decode()
    assert 'holdfast_last_completed_checkpoint_id{job="orders"} 3.0' in text
    assert 'holdfast_last_completed_checkpoint_id{job="refunds"} 5.0' in text


def test_the_stream_tells_of_a_change(tmp_path: Path) -> None:
    history = running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home") as url, asked(f"{url}/api/v1/stream") as stream:
        assert stream.readline() == b"event: hello\n"
        history.complete(4, batch=99)
        while stream.readline() != b"event: changed\n":
            pass
        with asked(f"{url}/jobs/orders/checkpoints/4") as page:
            assert page.status == 200


def test_a_home_that_hangs_is_told_of_until_it_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.dashboard.live.SILENT_S", 0.0)
    monkeypatch.setattr("holdfast.cli.dashboard.server._STREAM_BEAT_S", 0.05)
    running(tmp_path / "home", "orders", 3)
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    answers, read = threading.Event(), reader.refresh

    def late() -> HomeReading:
        if not reader.latest.is_first:
            answers.wait(PATIENCE)
        return read()

    reader.refresh = late  # type: ignore[method-assign]
    live = Live(reader, looked_at_s=0.01)
    server = DashboardServer("127.0.0.1", 0, Site(live, Guard(frozenset()), None, examine))
    live.start()
    server.start()
    try:
        with asked(f"http://127.0.0.1:{server.port}/api/v1/stream") as stream:
            while not re.fullmatch(rb"data: 20\S+Z\n", stream.readline()):
                pass
            monkeypatch.setattr("holdfast.cli.dashboard.live.SILENT_S", PATIENCE)
            answers.set()
            while stream.readline() != b"data: \n":
                pass
    finally:
        answers.set()
        live.close()
        server.close()


def test_a_round_costs_two_requests_per_job_and_one_for_the_home(tmp_path: Path) -> None:
    for number in range(10):
        running(tmp_path / "home", f"job-{number}", 5)
    now = [datetime.now(UTC)]
    reader = HomeReader(f"file://{tmp_path / 'home'}", lambda: now[0])
    live = Live(reader)
    live._refresh()
    before = reader.meter.usage
    live._refresh()
    after = reader.meter.usage
    assert (after.list - before.list, after.get - before.get) == (11, 10)
    now[0] += timedelta(minutes=1)
    live._refresh()
    assert reader.meter.usage.get - after.get == 20, "once a minute: when was it verified?"


def test_what_an_open_page_costs_the_home_in_a_minute_is_in_the_docs(tmp_path: Path) -> None:
    for number in range(40):
        running(tmp_path / "home", f"job-{number}", 1)
    now = [datetime.now(UTC)]
    reader = HomeReader(f"file://{tmp_path / 'home'}", lambda: now[0])
    live = Live(reader)
    live._refresh()
    usages = [reader.meter.usage]
    for passed in (0, 60):
        now[0] += timedelta(seconds=passed)
        live._refresh()
        usages.append(reader.meter.usage)
    first, second, third = (usage.get + usage.list + usage.put for usage in usages)
    once_a_minute = third - second - (second - first)
    stated = f"{second - first} requests in a round, {(second - first) * 60 / LOOKED_AT_S:.0f} and {once_a_minute} in a"
    assert stated in " ".join((DOCS).read_text().split())


def test_pages_cost_the_home_nothing_however_many_are_open(tmp_path: Path) -> None:
    """Only rounds read it, and their pace does not depend on readers. Comparing reads two manifests, once."""
    running(tmp_path / "home", "orders", 3)
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    live = Live(reader, looked_at_s=3600)
    live.start()
    server = DashboardServer("127.0.0.1", 0, Site(live, Guard(frozenset()), None, examine))
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    try:
        live.look_again(PATIENCE)
        before = reader.meter.usage
        streams = [asked(f"{url}/api/v1/stream") for _ in range(5)]
        for _ in range(3):
            for path in ("/", "/jobs/orders", "/jobs/orders/checkpoints/2", "/api/v1/jobs"):
                assert status(url + path) == 200
        after = reader.meter.usage
        assert (after.get, after.list, after.put) == (before.get, before.list, before.put)
        for _ in range(3):
            assert status(f"{url}/jobs/orders/compare?a=1&b=3") == 200
        assert (reader.meter.usage.get - after.get, reader.meter.usage.list - after.list) == (2, 0)
    finally:
        live.close()
        for stream in streams:
            stream.close()
        server.close()
    assert LOOKED_AT_S == 5.0, "docs/dashboard.md says how many requests that makes in a minute"


def test_a_page_is_compressed_for_those_who_can_read_it(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 30)
    able = {"Accept-Encoding": "gzip"}
    with dashboard(tmp_path / "home") as url, asked(f"{url}/jobs/orders") as plain:
        whole = plain.read()
        with asked(f"{url}/jobs/orders", able) as packed:
            small = packed.read()
    assert len(small) * 5 < len(whole)
    assert gzip.decompress(small).startswith(b"<!doctype html>")


NONSENSE: dict[str, Callable[[Any], None]] = {
    "no offset": lambda beat: beat.update(heartbeat_at="2026-01-01T00:00:00"),
    "year 1": lambda beat: beat.update(heartbeat_at="0001-01-01T00:00:00+14:00"),
    "alarm of year 1": lambda beat: beat["report"]["alarms"][0].update(since="0001-01-01T00:00:00+14:00"),
    "batch that took longer than time": lambda beat: beat["report"]["batches"][0].update(ms=10**18),
}


@pytest.mark.parametrize("nonsense", NONSENSE)
def test_a_heartbeat_that_makes_no_sense_hides_no_other_job(tmp_path: Path, nonsense: str) -> None:
    home = tmp_path / "home"
    running(home, "orders", 3)
    payments = failing(home)
    beat = msgspec.json.decode(opened(payments.store.get("owner.json"))[0])  # type: ignore[index]
    NONSENSE[nonsense](beat)
    payments.store.put("owner.json", sealed(msgspec.json.encode(beat)))
    live = Live(HomeReader(f"file://{home}"))
    site = Site(live, Guard(frozenset()), None, examine)
    handler = type("Handler", (PageHandler,), {"site": site, "__init__": lambda self: None})()
    live._refresh()
    live._refresh()
    pages = {path: handler._answered(path, {}, None) for path in ("/", "/jobs/orders", "/jobs/payments")}
    assert b"payments" in pages["/"].body
    assert [pages["/"].status, pages["/jobs/orders"].status] == [200, 200]
    assert pages["/jobs/payments"].status in (200, 404, 500)
    assert b"<h1>" in pages["/jobs/payments"].body


def test_before_the_home_is_read_the_page_says_so(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    live = Live(HomeReader(f"file://{tmp_path / 'home'}"))
    page = Site(live, Guard(frozenset()), None, examine).answer("/", {})
    assert b"The home is being read for the first time" in page.body


def test_while_the_home_is_read_the_first_time_pages_say_how_far_it_is(tmp_path: Path) -> None:
    for number in range(6):
        running(tmp_path / "home", f"job-{number}", 1)
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    live = Live(reader)
    site = Site(live, Guard(frozenset()), None, examine)
    seen: list[tuple[bytes, int, int]] = []
    shows = reader.on_progress

    def progressed() -> None:
        live._progress_at = 0.0  # however fast this machine is
        shows()
        answers = [site.answer(path, {}) for path in ("/", "/jobs/job-0", "/api/v1/jobs")]
        seen.append((answers[0].body, answers[1].status, answers[2].status))

    reader.on_progress = progressed
    live._refresh()
    for number, (body, job, jobs) in enumerate(seen, 1):
        assert f'<progress max="6" value="{number}"'.encode() in body
        assert (job, jobs) == (503, 503), "no job is missing yet"
    assert len(seen) == 6
    assert live.version() == 7, "each was a change for those who look"
    assert site.answer("/jobs/job-0", {}).status == site.answer("/api/v1/jobs", {}).status == 200


def test_an_empty_home_says_what_to_type(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    with dashboard(tmp_path / "home") as url, asked(f"{url}/") as answer:
        assert f"holdfast run pipeline.py --home file://{tmp_path / 'home'}" in answer.read().decode()


def test_an_address_that_others_reach_needs_a_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dashboard", "--home", f"file://{tmp_path}", "--address", "0.0.0.0", "--port", "0"]) == 2
    assert "HOLDFAST_DASHBOARD_TOKEN" in capsys.readouterr().err


def test_documents_are_encoded_as_they_are_described(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home") as url, asked(f"{url}/api/v1/jobs") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert msgspec.json.Decoder().decode(answer.read())["home"] == f"file://{tmp_path / 'home'}"


def test_the_pages_are_served_until_the_end_of_the_block(tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    home, guard = f"file://{tmp_path / 'home'}", Guard(frozenset())
    with serving(home, 0, "127.0.0.1", guard) as port:
        assert status(f"http://127.0.0.1:{port}/") == 200
        with pytest.raises(InvalidSettings, match="could not listen"), serving(home, port, "127.0.0.1", guard):
            pass
    with pytest.raises(OSError, match="refused"):
        asked(f"http://127.0.0.1:{port}/")


def test_a_lag_that_changes_makes_a_page_look_different(tmp_path: Path) -> None:
    orders = running(tmp_path / "home", "orders", 2, lag_of((10, 3)))
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    before = judge(reader.refresh().jobs["orders"]).fingerprint
    beat(orders, 23, lag_of((10, 4)))
    assert judge(reader.refresh().jobs["orders"]).fingerprint != before
