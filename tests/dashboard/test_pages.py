"""Every page in a real browser: its numbers are those of the journal, changes arrive, nothing from a home is run.

One Chromium for all tests of this file, about 20 seconds in all.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdfast.repository.entries import CheckpointCompleted
from holdfast.repository.last_verified import note_verified
from holdfast.storage.prices import PRICES, Prices
from tests.dashboard.homes import HOSTILE, beat, dashboard, failing, lag_of, lost, running
from tests.dashboard.owners import GUARD, TOKEN, owned
from tests.dashboard.webdriver import Browser, browser
from tests.stores.processes import installed, required
from tests.unit.job_histories import History

LAG = (1_100, 4, 100)
VERIFIED_AT = datetime(2026, 11, 18, 9, 41, 3, tzinfo=UTC)
AXE = "4.10.2"
LIVE = "return document.getElementById('live').textContent === 'live'"
VALUES = """return [...document.querySelectorAll(`figure[data-title="${arguments[0]}"] g`)]
  .map(g => g.dataset.failed === undefined ? Number(g.dataset.value) : null)"""
MARKS = """return [...document.querySelectorAll(`[data-lane="${arguments[0]}"] g`)]
  .map(g => Number(g.dataset[arguments[1]]))"""
DRAG = """const lane = document.querySelector('[data-lane=checkpoints] svg'), at = lane.getBoundingClientRect();
  const send = (kind, part) => lane.dispatchEvent(new PointerEvent(kind,
    {bubbles: true, button: 0, clientX: at.left + part * at.width, clientY: at.top + 5}));
  send('pointerdown', arguments[0]); send('pointermove', arguments[1]); send('pointerup', arguments[1]);"""
SPAN = "const of = document.getElementById('timeline').dataset; return [of.begin, of.end]"
CELLS = """return [...document.querySelectorAll(`${arguments[0]} tbody tr`)]
  .map(r => [...r.cells].map(c => c.dataset.sort))"""
PATHS = (
    "/",
    "/jobs/orders",
    "/jobs/payments",
    "/jobs/orders/checkpoints/40",
    "/jobs/payments/checkpoints/26",
    "/jobs/orders/compare?a=1&b=40",
    "/doctor",
)


class Open:
    """A browser in front of a dashboard over a home that the test can change."""

    def __init__(self, driven: Browser, url: str, home: Path, orders: History, payments: History) -> None:
        self.browser, self.url, self.home, self.orders = driven, url, home, orders
        self.payments = payments

    def page(self, path: str) -> Browser:
        self.browser.open(self.url + path)
        if path != "/doctor":
            self.browser.wait_for(LIVE)
        return self.browser

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.run(script, *arguments)

    @property
    def entries(self) -> list[CheckpointCompleted]:
        return list(self.orders.state().completed.values())


@pytest.fixture(scope="module")
def driven(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as started:
        started.size(1440, 1000)
        yield started


@pytest.fixture
def shown(driven: Browser, tmp_path: Path) -> Iterator[Open]:
    home = tmp_path / "home"
    orders = running(home, "orders", lag=lag_of(LAG))
    note_verified(orders.store, orders.state().retained(), VERIFIED_AT, {38})
    payments = failing(home)
    lost(home)
    with dashboard(home, GUARD) as url:
        driven.open(f"{url}/?token={TOKEN}")
        yield Open(driven, url, home, orders, payments)
        driven.open("about:blank")


def test_jobs_are_listed_worst_first(shown: Open) -> None:
    page = shown.page("/")
    rows = page.run("return [...document.querySelectorAll('#jobs tbody tr')].map(r => [r.dataset.job, r.className])")
    assert rows == [["clicks", "critical"], ["payments", "critical"], ["orders", "well"]]
    assert page.run("return document.getElementById('summary').textContent") == "2 need attention · 1 well"
    text = page.run("return document.querySelector('tr[data-job=payments]').textContent")
    assert "#20" in text
    assert "checkpoints-failing" in text


def test_the_charts_of_a_job_show_what_the_journal_says(shown: Open) -> None:
    page = shown.page("/jobs/orders")
    entries = shown.entries
    assert page.run(VALUES, "new bytes") == [entry.bytes_new for entry in entries]
    assert page.run(VALUES, "size") == [entry.bytes_total for entry in entries]
    assert page.run(VALUES, "duration by phase") == [sum(phase.ms for phase in entry.phases) for entry in entries]
    requests = [entry.requests for entry in entries]
    assert page.run(VALUES, "requests") == [r.put + r.get + r.list + r.delete for r in requests if r is not None]
    ids = page.run("return [...document.querySelectorAll('#checkpoints tbody tr')].map(r => Number(r.dataset.id))")
    assert ids == [entry.id for entry in reversed(entries)]
    facts = page.run("return document.querySelector('.facts').textContent")
    assert "committed batch403" in facts
    assert "published batch400" in facts
    assert page.run("return document.querySelector('.calendar .savepoint').textContent") == "before-upgrade"


def test_the_timeline_shows_every_batch_and_every_checkpoint(shown: Open) -> None:
    page = shown.page("/jobs/orders")
    entries = shown.entries
    spans = [span for entry in entries for span in entry.batches]
    drawn = page.run(MARKS, "batches", "value")
    assert drawn[:-1] == [span.ms for span in spans]
    assert drawn[-1] == 500 + 403, "the newest is known from the heartbeat only"
    assert page.run(MARKS, "checkpoints", "id") == [entry.id for entry in entries]
    table = page.run(CELLS, "#batch-numbers")
    assert [int(row[0]) for row in table] == [403, *(span.first for span in reversed(spans))]
    assert [int(row[4]) for row in table[1:]] == [span.rows for span in reversed(spans)]
    beat(shown.orders, 404)
    page.wait_for("return document.querySelector('#batch-numbers tbody tr').dataset.batch === '404'")
    page = shown.page("/jobs/payments")
    crosses = page.run("return document.querySelectorAll('[data-lane=checkpoints] g path.cross').length")
    assert crosses == 6, "a failure has a shape, not only a colour"
    assert page.run("return document.querySelectorAll('[data-lane=checkpoints] g path.diamond').length") == 1
    titles = page.run("return [...document.querySelectorAll('[data-lane=checkpoints] title')].map(t => t.textContent)")
    assert "failed: storage_unreachable: PUT blobs/aa: connection refused (10.2.0.9)" in titles[-1]


def test_the_timeline_shows_alarms_from_their_beginning_to_their_end(shown: Open) -> None:
    page = shown.page("/jobs/payments")
    drawn = page.run("return [...document.querySelectorAll('[data-lane=alarms] g')].map(g => g.dataset.alarm)")
    assert drawn == ["kafka_lag_growing", "checkpoints_failing"]
    over, lasting = page.run("""return [...document.querySelectorAll('[data-lane=alarms] rect')]
        .map(r => [r.x.baseVal.valueInSpecifiedUnits, r.width.baseVal.valueInSpecifiedUnits])""")
    assert over[0] + over[1] < lasting[0]
    assert abs(lasting[0] + lasting[1] - 100) < 0.1, "it lasts until now"
    rows = page.run(CELLS, "#alarms")
    assert [row[:2] for row in rows] == [["checkpoints_failing", "critical"], ["kafka_lag_growing", "warning"]]
    beat(shown.payments, 241)
    page.wait_for("return !document.querySelector('[data-lane=alarms]')")


def test_the_timeline_shows_deaths_and_restarts(shown: Open) -> None:
    history = shown.orders
    history.now = datetime.now(UTC)
    history.restart()
    history.run(interval_s=60.0)
    history.complete(41, batch=410)
    history.end()
    history.run(interval_s=60.0)
    beat(history, 411)
    page = shown.page("/jobs/orders")
    page.wait_for("return document.querySelectorAll('[data-turn]').length >= 6")
    turns = page.run("return [...document.querySelectorAll('[data-turn]')].map(g => g.dataset.turn)")
    assert turns == ["began", "died", "died", "began", "ended", "began"], "run, query, run; second; third"


def test_every_chart_has_its_numbers_in_a_table(shown: Open) -> None:
    page = shown.page("/jobs/orders?last=30")
    entries = shown.entries[-30:]
    heads = page.run("return [...document.querySelectorAll('#numbers thead th')].map(h => h.textContent)")
    assert heads == ["checkpoint", "triggered", "failed", "plan", "copy", "journal", "new bytes", "size", "requests"]
    rows = page.run(CELLS, "#numbers")
    columns = list(zip(*reversed(rows), strict=True))
    assert [int(value) for value in columns[0]] == [entry.id for entry in entries]
    for title in ("new bytes", "size", "requests"):
        assert [float(value) for value in columns[heads.index(title)]] == page.run(VALUES, title), title
    phases = [sum(float(value) for value in row[3:6]) for row in reversed(rows)]
    assert phases == page.run(VALUES, "duration by phase")
    batches = list(reversed(page.run(CELLS, "#batch-numbers")))
    assert [float(row[4]) for row in batches] == page.run(VALUES, "rows per batch")
    assert [float(row[5]) for row in batches] == page.run(VALUES, "rows of state")
    titles = page.run("return [...document.querySelectorAll('figure.chart')].map(f => f.dataset.title)")
    assert sorted(titles) == sorted(["duration by phase", *heads[6:], "rows per batch", "rows of state"])


def test_requests_are_shown_at_list_price(shown: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRICES, "file", Prices(put=0.005, get=0.0004, list=0.005))
    page = shown.page("/jobs/orders")
    made = [entry.requests for entry in shown.entries]
    cost = [(each.put * 0.005 + each.get * 0.0004 + each.list * 0.005) / 1000 for each in made if each]
    assert page.run(VALUES, "cost of requests") == pytest.approx(cost, rel=1e-9)
    a_month = cost[-1] / 60 * 30.4 * 86400
    assert f"requests at list price${a_month:,.2f} a month" in page.run(
        "return document.querySelector('.facts').textContent"
    )


def test_what_can_be_restored_is_a_calendar(shown: Open) -> None:
    page = shown.page("/jobs/orders")
    counts = page.run(
        "return [...document.querySelectorAll('#calendar [data-hour]')].map(c => "
        "[c.parentElement.dataset.day + ' ' + c.dataset.hour.padStart(2, '0'), Number(c.textContent)])"
    )
    counted: dict[str, int] = {}
    for entry in shown.entries:
        hour = f"{entry.at:%Y-%m-%d %H}"
        counted[hour] = counted.get(hour, 0) + 1
    assert dict(counts) == counted
    newest_day = "document.querySelectorAll('#calendar tbody tr:first-child .hour')"
    link = page.run(f"return [...{newest_day}].at(-1).getAttribute('href')")
    assert link == "/jobs/orders/checkpoints/40", "the newest of the newest hour"
    assert page.run("return document.querySelector('#calendar .savepoint').getAttribute('href')").endswith("/20")


def test_a_checkpoint_says_whether_it_is_whole(shown: Open) -> None:
    page = shown.page("/jobs/orders/checkpoints/39")
    assert "No damage is known" in page.run("return document.querySelector('#verified').textContent")
    commands = page.run("return [...document.querySelectorAll('pre')].map(p => p.textContent)")
    assert f"holdfast verify --home file://{shown.home} --job orders --checkpoint 39" in commands
    hosts = page.run("return [...document.querySelectorAll('#shards tbody tr')].map(r => r.cells[1].textContent)")
    assert hosts == ["exec-3", "driver", "driver"]
    shown.orders.damage(39)
    page.wait_for("return document.querySelector('#verified').textContent.includes('another digest')")
    commands = page.run("return [...document.querySelectorAll('pre')].map(p => p.textContent)")
    assert not any(command.startswith("holdfast restore") for command in commands)
    page = shown.page("/jobs/orders/checkpoints/38")
    assert "every byte was read" in page.run("return document.querySelector('#verified').textContent")
    assert page.run("return document.querySelector('#verified time').dateTime") == f"{VERIFIED_AT:%Y-%m-%dT%H:%M:%S}Z"


def test_the_lag_is_shown_by_job_and_by_partition(shown: Open) -> None:
    beat(shown.orders, 403, lag_of(LAG))
    page = shown.page("/")
    text = page.wait_for("return document.querySelector('tr[data-job=orders] [title^=in]')?.textContent")
    assert text == "1,204 records · about 42.0s old ▼ shrinking"
    assert page.run("return document.querySelector('tr[data-job=payments] [data-label=lag]').textContent") == "-"
    beat(shown.orders, 403, lag_of(LAG))
    page = shown.page("/jobs/orders")
    page.wait_for("return document.querySelector('#lag')")
    facts = page.run("return document.querySelector('#lag .facts').innerText.split(/\\n+/)")
    assert facts[:4] == ["not processed", "1,204 records", "readers do not see", "1,806 records"]
    assert "in about 1m 10s" in facts
    drawn = "return [...document.querySelectorAll('#lag .waterfall tr')].map(r => [r.dataset.name, r.dataset.value])"
    assert page.run(drawn) == [["orders[0]", "1100"], ["orders[2]", "100"], ["orders[1]", "4"]]
    rows = page.run(CELLS, "#lag-partitions")
    assert rows == [["orders[0]", "1100", "1650"], ["orders[2]", "100", "150"], ["orders[1]", "4", "6"]]


def test_a_lag_that_grows_arrives_without_a_reload(shown: Open) -> None:
    beat(shown.orders, 403, lag_of(LAG))
    page = shown.page("/jobs/orders")
    page.wait_for("return document.querySelector('#lag-numbers')")
    page.run("document.querySelector('#lag-numbers').open = true")
    beat(shown.orders, 403, lag_of((5_000, 4, 100), "growing", None))
    page.wait_for("return document.querySelector('#lag').textContent.includes('never at this pace')")
    assert "▲ growing" in page.run("return document.querySelector('#lag').textContent")
    assert page.run("return document.querySelector('#lag tr').dataset.value") == "5000"
    assert page.run("return document.querySelector('#lag-numbers').open"), "what was opened stays open"


def test_failures_are_marked_on_every_chart(shown: Open) -> None:
    page = shown.page("/jobs/payments")
    for title in ("new bytes", "size", "duration by phase", "requests"):
        values = page.run(VALUES, title)
        assert len(values) == 26
        assert values[20:] == [None] * 6
    assert "storage_unreachable" in page.run("return document.querySelector('#checkpoints').textContent")


def test_a_checkpoint_shows_its_phases_its_shards_and_how_to_restore_it(shown: Open) -> None:
    page = shown.page("/jobs/orders/checkpoints/40")
    phases = page.run("return [...document.querySelectorAll('.waterfall tr')].map(r => r.innerText.split(/\\s+/))")
    assert page.run("return [...document.querySelectorAll('.waterfall tr')].map(r => r.dataset.value)") == [
        "40",
        "700",
        "90",
    ]
    assert phases == [["plan", "40ms"], ["copy", "700ms"], ["journal", "90ms"]]
    shards = page.run("return [...document.querySelectorAll('#shards tbody tr')].map(r => r.cells[2].dataset.sort)")
    assert shards == ["800", "300", "20"]
    command = page.run("return [...document.querySelectorAll('pre')].at(-1).textContent")
    assert command == f"holdfast restore --home file://{shown.home} --job orders --checkpoint 40 --to ./restored"
    page = shown.page("/jobs/payments/checkpoints/26")
    assert "connection refused (10.2.0.9)" in page.run("return document.querySelector('.finding').textContent")


def test_two_checkpoints_are_compared(shown: Open) -> None:
    page = shown.page("/jobs/orders/compare?a=1&b=40")
    grown = page.run(
        "return Object.fromEntries([...document.querySelectorAll('#compared tbody tr')]"
        ".map(r => [r.dataset.what, Number(r.dataset.grew)]))"
    )
    first, last = shown.entries[0], shown.entries[-1]
    assert grown["size"] == last.bytes_total - first.bytes_total == 39 * 50_000
    assert grown["phase copy"] == last.phases[1].ms - first.phases[1].ms
    by_operator = page.run(CELLS, "#operators")
    assert by_operator == [["control", "90", "90", "0"], ["state/0", "701", "740", "39"]]
    assert page.run(CELLS, "#shards") == [["state/0/17", "401", "440", "39"]]


def test_a_pasted_trace_is_examined(shown: Open) -> None:
    page = shown.page("/doctor")
    trace = "java.lang.OutOfMemoryError: Java heap space\\n\\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)"
    page.run(f"document.getElementById('text').value = '{trace}'")
    page.run("document.querySelector('form button').click()")
    text = page.wait_for("return document.getElementById('report')?.textContent")
    assert "out-of-memory" in text
    assert "Java heap space" in text


def test_a_log_is_dropped_on_the_page(shown: Open) -> None:
    page = shown.page("/doctor")
    page.run("""const held = new DataTransfer();
        held.items.add(new File(['a log that was dropped'], 'driver.log'));
        document.body.dispatchEvent(new DragEvent('drop', {dataTransfer: held, bubbles: true, cancelable: true}))""")
    page.wait_for("return document.getElementById('text').value === 'a log that was dropped'")


def test_text_without_a_trace_is_said_to_be_none(shown: Open) -> None:
    page = shown.page("/doctor")
    page.run("document.getElementById('text').value = 'good morning'")
    page.run("document.querySelector('form button').click()")
    page.wait_for("return document.querySelector('h1').textContent === '422'")
    assert "none begins like a line of a log" in page.run("return document.querySelector('h1 + p').textContent")


def test_a_change_arrives_without_a_reload(shown: Open) -> None:
    page = shown.page("/jobs/orders")
    page.run("window.here = true")
    shown.orders.complete(41, batch=500, bytes_new=123_456)
    page.wait_for("return document.querySelector('#checkpoints tr[data-id=\"41\"]')")
    assert page.run(VALUES, "new bytes")[-1] == 123_456
    assert page.run("return window.here") is True


def test_a_job_that_dies_turns_red(shown: Open) -> None:
    page = shown.page("/")
    shown.orders.now = datetime.now(UTC) - timedelta(minutes=10)
    shown.orders.beat()
    page.wait_for("return document.querySelector('tr[data-job=orders]').className === 'critical'")
    assert "not running" in page.run("return document.querySelector('tr[data-job=orders]').textContent")
    beat(shown.orders, 410)
    page.wait_for("return document.querySelector('tr[data-job=orders]').className === 'well'")


def test_a_job_whose_host_is_gone_turns_red_after_six_missed_heartbeats_and_not_before(shown: Open) -> None:
    history = History(shown.home, "remote")
    history.run(heartbeat_s=100.0)
    history.now = datetime.now(UTC) - timedelta(seconds=500)
    history.beat()
    page = shown.page("/")
    state = "return document.querySelector('tr[data-job=remote] .state')?.className"
    assert page.wait_for(state) == "state running"
    history.now = datetime.now(UTC) - timedelta(seconds=601)
    history.beat()
    page.wait_for("return document.querySelector('tr[data-job=remote]').className === 'critical'")
    assert page.run(state) == "state lost"


MORTAL = """
import sys
from pathlib import Path
from holdfast.repository.ownership import current_process
from tests.unit.job_histories import History
history = History(Path(sys.argv[1]), "mortal")
history.run(process=current_process(), heartbeat_s=3600.0)
history.beat()
print("runs", flush=True)
sys.stdin.read()
"""


def test_a_process_that_is_killed_turns_its_job_red_before_its_next_heartbeat_was_due(shown: Open) -> None:
    page = shown.page("/")
    command = (sys.executable, "-c", MORTAL, str(shown.home))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        page.wait_for("return document.querySelector('tr[data-job=mortal] .state.running')")
        process.kill()
    page.wait_for("return document.querySelector('tr[data-job=mortal].critical .state.lost')")


def test_a_home_that_is_away_is_said_and_what_was_read_stays(shown: Open) -> None:
    page = shown.page("/")
    shown.home.rename(shown.home.with_name("away"))
    shown.home.write_text("no directory")
    page.wait_for("return document.querySelector('.away')")
    assert "unreachable since" in page.run("return document.querySelector('.away').textContent")
    assert len(page.run("return [...document.querySelectorAll('#jobs tbody tr')]")) == 3


def test_a_page_whose_stream_is_cut_says_since_when_and_keeps_what_it_shows(driven: Browser, tmp_path: Path) -> None:
    running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home") as url:
        driven.open(f"{url}/jobs/orders")
        driven.wait_for(LIVE)
    driven.run("heard -= SILENT_MS")  # the patience of the page, without waiting for it
    said = driven.wait_for("return document.querySelector('#live.cut')?.textContent")
    assert said.startswith("stale since ")
    assert driven.run("return document.querySelectorAll('#checkpoints tbody tr').length") == 3
    driven.open("about:blank")


def test_a_checkpoint_and_a_savepoint_are_made_from_the_page(shown: Open) -> None:
    with owned(shown.orders) as owner:
        page = shown.page("/jobs/orders")
        page.run("document.querySelector('.actions button').click()")
        page.wait_for("return document.querySelector('h1').textContent.startsWith('#41 ')")
        page = shown.page("/jobs/orders")
        page.run("document.getElementById('savepoint').value = 'from-the-page'")
        shown.orders.complete(42, batch=800)
        page.wait_for("return document.querySelector('#checkpoints tr[data-id=\"42\"]')")
        owner.next = 43
        page.run(
            "document.querySelector('#savepoint + button, label:has(#savepoint) ~ button').click()"
        )  # what was typed outlives the change
        page.wait_for("return document.querySelector('h1').textContent.startsWith('savepoint from-the-page')")
    assert owner.served == [("checkpoint", None), ("savepoint", "from-the-page")]


def test_a_savepoint_is_dropped_from_the_page_in_two_steps(shown: Open) -> None:
    with owned(shown.orders) as owner:
        page = shown.page("/jobs/orders")
        row = "document.querySelector('tr[data-savepoint=before-upgrade]')"
        assert not page.run(f"return {row}.querySelector('button').checkVisibility()")
        page.run(f"{row}.querySelector('summary').click()")
        page.wait_for(f"return {row}.querySelector('button').checkVisibility()")
        page.run(f"{row}.querySelector('button').click()")
        page.wait_for(f"return document.readyState === 'complete' && {row} === null")
        page.run("[...document.querySelectorAll('.actions button')].find(b => b.textContent === 'Collect').click()")
        said = page.wait_for("return document.getElementById('collected')?.textContent")
    assert said == "7 objects are deleted"
    assert owner.served == [("delete-savepoint", "before-upgrade"), ("collect", None)]


def test_a_form_of_another_site_does_nothing_though_the_browser_has_the_cookie(shown: Open, tmp_path: Path) -> None:
    """Another port of this machine: the browser takes it for the same site, and sends the cookie."""
    (tmp_path / "site").mkdir()
    action = f"{shown.url}/api/v1/jobs/orders/checkpoints"
    form = f"<form method=post action={action}><button>win</button></form>"
    (tmp_path / "site" / "index.html").write_text(f"<!doctype html><title>evil</title>{form}")
    with owned(shown.orders) as owner, website(tmp_path / "site") as evil:
        shown.browser.open(f"{evil}/index.html")
        shown.run("document.querySelector('button').click()")
        shown.browser.wait_for("return document.body.textContent.includes('comes from another site')")
    assert owner.served == []


def test_without_the_token_the_page_asks_for_it_and_names_no_home(shown: Open) -> None:
    shown.browser.devtools("Network.clearBrowserCookies", {})
    shown.browser.open(f"{shown.url}/jobs/orders")
    assert "a token is needed" in shown.run("return document.body.textContent")
    assert str(shown.home) not in shown.run("return document.documentElement.outerHTML")
    shown.run("document.querySelector('input').value = arguments[0]", TOKEN)
    shown.run("document.querySelector('button').click()")
    shown.browser.wait_for("return document.querySelectorAll('#jobs tbody tr').length === 3")
    assert shown.run("return location.search") == "", "the token is in no address"


def test_every_table_can_be_sorted_by_every_column(shown: Open) -> None:
    for path in PATHS:
        page = shown.page(path)
        pictures = ".waterfall, .calendar"
        assert page.run(f"return document.querySelectorAll('main table:not(.sortable, {pictures})').length") == 0
        unsorted = page.run("""return [...document.querySelectorAll('table.sortable thead th')].filter(head => {
            const table = head.closest('table');
            head.querySelector('button').click();
            const up = head.getAttribute('aria-sort');
            const lost = [...table.tBodies[0].rows].some(row => row.cells[head.cellIndex].dataset.sort === undefined);
            return up !== 'ascending' || lost;
        }).map(head => head.textContent)""")
        assert unsorted == [], path


def test_a_span_of_time_is_chosen_by_dragging_and_stays_in_the_address(shown: Open) -> None:
    page = shown.page("/jobs/orders")
    entries = shown.entries
    page.run(DRAG, 0.25, 0.5)
    page.wait_for("return location.search.includes('from=') && document.getElementById('live')?.textContent === 'live'")
    begin, end = (datetime.fromisoformat(at) for at in page.run(SPAN))
    inside = [entry.id for entry in entries if begin <= triggered(entry) <= end]
    assert 5 <= len(inside) <= 15, "a quarter of forty"
    assert page.run(MARKS, "checkpoints", "id") == inside
    spans = [span for entry in entries for span in entry.batches if begin <= span.at <= end]
    assert page.run(MARKS, "batches", "value") == [span.ms for span in spans]
    assert page.run(VALUES, "new bytes") == [entry.bytes_new for entry in entries if entry.id in inside]
    page.run("document.querySelector('#whole').click()")
    page.wait_for("return location.search === '' && document.getElementById('live')?.textContent === 'live'")
    assert page.run(MARKS, "checkpoints", "id") == [entry.id for entry in entries]


def test_a_span_is_chosen_by_keyboard_and_one_without_anything_says_so(shown: Open) -> None:
    page = shown.page("/jobs/orders?from=2001-01-01T00:00:00&to=2001-01-02T00:00:00")
    assert "Nothing is recorded" in page.run("return document.querySelector('#main').textContent")
    page = shown.page("/jobs/orders?from=nonsense&to=%3Cb%3E")
    assert page.run(MARKS, "checkpoints", "id") == [entry.id for entry in shown.entries]
    first, last = triggered(shown.entries[9]), triggered(shown.entries[19])
    page.run("document.querySelector('#span').open = true")
    for name, at in (("from", first), ("to", last)):
        typed = f"{at:%Y-%m-%dT%H:%M:%S}"
        page.run("document.querySelector(`#span input[name=${arguments[0]}]`).value = arguments[1]", name, typed)
    page.run("document.querySelector('#span button').focus()")
    page.keys("\ue007")
    page.wait_for("return location.search.includes('from=') && document.getElementById('live')?.textContent === 'live'")
    assert len(page.run(MARKS, "checkpoints", "id")) in (9, 10, 11), "to a second"


def triggered(entry: CheckpointCompleted) -> datetime:
    return entry.triggered_at.astimezone(UTC)


@contextmanager
def website(place: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place)))
    serving = threading.Thread(target=server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def test_nothing_from_a_home_is_run_or_taken_for_html(driven: Browser, tmp_path: Path) -> None:
    failing(tmp_path / "home", "hostile", HOSTILE)
    with dashboard(tmp_path / "home") as url:
        for path in ("/", "/jobs/hostile", "/jobs/hostile/checkpoints/26"):
            driven.open(url + path)
            driven.wait_for(LIVE)
            assert "hacked" not in driven.run("return document.title")
            assert driven.run("return document.querySelectorAll('img').length") == 0
            assert driven.run("return document.querySelectorAll('script:not([src]), [style], [onclick]').length") == 0
            assert "<script>" in driven.run("return document.body.textContent") or path == "/"
        driven.open("about:blank")


def test_nothing_comes_from_elsewhere(shown: Open) -> None:
    for path in PATHS:
        page = shown.page(path)
        loaded = page.run("return performance.getEntriesByType('resource').map(e => e.name)")
        assert loaded
        assert all(name.startswith(shown.url) for name in loaded)


def test_by_keyboard_jobs_are_filtered_and_sorted(shown: Open) -> None:
    page = shown.page("/")
    page.keys("/")
    page.keys("orders")
    visible = "return [...document.querySelectorAll('tr[data-job]')].filter(r => !r.hidden).map(r => r.dataset.job)"
    assert page.run(visible) == ["orders"]
    page.run("document.getElementById('filter').value = ''")
    page.run("document.getElementById('filter').dispatchEvent(new Event('input', {bubbles: true}))")
    page.run("document.querySelectorAll('#jobs thead button')[0].focus()")
    page.keys("\ue007")
    assert page.run(visible) == ["clicks", "orders", "payments"]
    page.keys("\ue007")
    assert page.run(visible) == ["payments", "orders", "clicks"]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_filter_leaves_what_it_names(shown: Open, width: int) -> None:
    """On a phone, too, where rows are cards."""
    shown.browser.size(width, 900)
    page = shown.page("/")
    page.run("""const filter = document.getElementById('filter');
        filter.value = 'pay';
        filter.dispatchEvent(new Event('input', {bubbles: true}))""")
    seen = page.run(
        "return [...document.querySelectorAll('tr[data-job]')].filter(r => r.offsetHeight).map(r => r.dataset.job)"
    )
    shown.browser.size(1440, 1000)
    assert seen == ["payments"]


def test_on_a_phone_what_can_be_restored_is_on_the_screen(shown: Open) -> None:
    shown.browser.size(390, 900)
    try:
        page = shown.page("/jobs/orders")
        assert page.run("""return [...document.querySelectorAll('#calendar a')]
            .every(a => { const at = a.getBoundingClientRect(); return at.left >= 0 && at.right <= innerWidth })""")
        hours = page.run("return [...document.querySelectorAll('#calendar [data-hour]')].map(c => c.dataset.label)")
        assert hours
        assert all(label.endswith(" h") for label in hours)
    finally:
        shown.browser.size(1440, 1000)


def test_what_needs_attention_comes_first(shown: Open) -> None:
    page = shown.page("/jobs/payments")
    assert page.run("return document.querySelector('h2').textContent") == "Findings"
    assert (
        page.run("""return [...document.querySelectorAll('nav.contents a')]
        .filter(a => !document.querySelector(a.getAttribute('href'))).length""")
        == 0
    )
    page = shown.page("/jobs/payments/checkpoints/26")
    assert page.run("return document.querySelector('h2').textContent") == "Why it failed"
    page = shown.page("/jobs/clicks")
    titles = page.run("return [...document.querySelectorAll('figure.chart')].map(f => f.dataset.title)")
    assert titles == ["duration by phase", "new bytes", "size"], "no chart of what is not known"


@pytest.mark.parametrize("width", [390, 1440])
def test_every_page_fits_the_screen(shown: Open, width: int) -> None:
    shown.browser.size(width, 900)
    try:
        for path in PATHS:
            page = shown.page(path)
            assert page.run("return document.documentElement.scrollWidth - innerWidth") <= 0, path
    finally:
        shown.browser.size(1440, 1000)


@pytest.fixture(scope="module")
def axe() -> str:
    flags = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    npm = required("npm")
    modules = installed(f"axe-core-{AXE}", lambda to: [npm, "install", "--prefix", str(to), *flags, f"axe-core@{AXE}"])
    script = modules / "node_modules" / "axe-core" / "axe.min.js"
    return script.read_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_axe_finds_no_violation(shown: Open, axe: str, width: int, scheme: Any) -> None:
    shown.browser.size(width, 900)
    shown.browser.scheme(scheme)
    try:
        for path in PATHS:
            page = shown.page(path)
            page.run(axe)
            page.run("window.found = null; axe.run().then(r => { window.found = r.violations; })")
            violations = page.wait_for("return window.found && [window.found]")[0]
            assert [(each["id"], each["nodes"][0]["html"]) for each in violations] == [], path
    finally:
        shown.browser.size(1440, 1000)
