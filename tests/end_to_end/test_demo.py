"""`holdfast demo` shows what it says, and says no when it does not hold."""

import os
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.cli.demo.acts import ACTS, Outcome, all_held
from holdfast.cli.demo.arrivals import Arrivals
from holdfast.cli.demo.batch_answer import Row, committed_files, compare, recompute
from holdfast.cli.demo.narrating import Narrator, Said
from holdfast.cli.demo.on_page import OnPage
from holdfast.cli.demo.places import make_places
from holdfast.cli.demo.plain import cause
from holdfast.cli.demo.score import Score, Side, score
from holdfast.cli.demo.watching import BatchCommitted, LogLine
from holdfast.errors import InvalidSettings
from tests.dashboard.webdriver import Browser, browser

DEMO = (sys.executable, "-m", "holdfast.cli", "demo")
NINE = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
ROWS: list[Row] = [(NINE, "bergen", 3, 700), (NINE, "dublin", 1, 150)]


RECORD = """
window.seen = [];
const look = () => {
  const state = document.querySelector('tr[data-job=orders] .state')?.textContent;
  const now = document.querySelector('.away') ? 'home away' : state;
  if (now && window.seen.at(-1) !== now) window.seen.push(now);
};
new MutationObserver(look).observe(document.getElementById('main'), {childList: true, subtree: true});
look();
"""


WRONG = """
const wrong = (side) => document.querySelector(`#score tr[data-row="${side}"] [data-label=wrong]`)?.textContent;
return Number(wrong('plain Spark')) > 0 && [wrong('holdfast'), 'some'];
"""


@pytest.mark.long
def test_everything_holds_and_the_page_shows_it(tmp_path: Path) -> None:
    """One demo for both, since somebody has to look while it plays."""
    said, troubles = tmp_path / "out", tmp_path / "err"
    with said.open("wb") as out, troubles.open("wb") as err, browser(tmp_path) as driven:
        demo = subprocess.Popen([*DEMO, "--dashboard", "--dir", str(tmp_path / "demo")], stdout=out, stderr=err)
        try:
            watch(driven, address(demo, troubles))
            assert demo.wait() == 0, said.read_text()
        finally:
            demo.terminate()
            demo.wait()
    require_all_held(said.read_text())
    assert re.fullmatch(r"the page is at \S+\n", troubles.read_text()), troubles.read_text()
    assert processes_of(tmp_path / "demo") == []


def address(demo: "subprocess.Popen[bytes]", said: Path) -> str:
    while (at := re.search(r"the page is at (http://[^ ]+/)", said.read_text())) is None:
        assert demo.poll() is None, said.read_text()
        time.sleep(0.05)
    return at[1]


def watch(driven: Browser, page: str) -> None:
    """The kill, the outage and the recovery."""
    driven.open(page)
    driven.wait_for("return document.getElementById('live').textContent === 'live'")
    driven.run(RECORD)
    driven.wait_for("return seen.includes('home away') && seen.at(-1) === '● running'")
    seen = driven.run("return seen")
    assert seen[:5] == ["● running", "✕ not running", "● running", "home away", "● running"]
    driven.open(f"{page}jobs/orders")
    driven.wait_for("return document.querySelectorAll('[data-lane=checkpoints] .failed').length >= 2")
    turns = driven.run("return [...document.querySelectorAll('[data-turn]')].map(g => g.dataset.turn)")
    assert turns[:2] == ["died", "began"], "the acts that follow end runs, too"
    assert driven.run("return document.querySelectorAll('[data-lane=batches] g').length") > 0
    assert "storage_unreachable" in driven.run("return document.getElementById('checkpoints').textContent")
    assert driven.wait_for(WRONG) == ["0", "some"], "holdfast refuses the deployment with swapped sums, Spark runs it"
    assert "mv home home.away" in driven.run("return document.querySelector('#board .said').textContent")


def require_all_held(said: str) -> None:
    assert "Everything held." in said
    assert len(re.findall(r"^✓  ", said, re.MULTILINE)) == len(ACTS)
    assert "refused with exit code 5" in said
    assert "storage_unreachable" in said
    assert "refused with exit code 2, table unchanged" in said
    assert re.search(r"forced through: [1-9]\d* wrong rows +rolled back to checkpoint \d+, 0 wrong rows", said)
    assert len(re.findall("│ plain Spark: ", said)) == len(ACTS) - 1, "one sentence for each act but the comparison"
    assert "both ran until" in said, "two deployments of plain Spark"
    assert re.search(r"Plain Spark beside it: \d+ rows, [1-9]\d* wrong, ", said), "it adds money to counts"
    assert "holdfast checkpoints --home" in said
    assert "\x1b" not in said, "no colours where there is no terminal"


def test_an_interrupt_leaves_no_process_behind(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    with (tmp_path / "out").open("wb") as out:
        # A shell starts background jobs, these tests perhaps, with interrupts ignored, and children inherit that.
        demo = subprocess.Popen(
            ["env", "--default-signal=INT", *DEMO, "--dir", str(root)],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        while not (root.exists() and processes_of(root, but=demo.pid)):
            assert demo.poll() is None, (tmp_path / "out").read_text()
            time.sleep(0.05)
        demo.send_signal(signal.SIGINT)
        assert demo.wait() == 130
    finally:
        demo.kill()
        demo.wait()
    assert processes_of(root) == []
    assert (tmp_path / "out").read_text().splitlines()[-2:] == [
        f"stopped; its files are in {root}",
        "holdfast: interrupted",
    ]


def test_without_java_it_says_so_and_makes_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = str(tmp_path)
    ran = subprocess.run(
        [*DEMO, "--dir", str(tmp_path / "demo")], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stdout == ""
    what, hint = ran.stderr.splitlines()
    assert "needs Java 17 or newer" in what
    assert hint.startswith("Try: ")
    assert not (tmp_path / "demo").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(InvalidSettings, match="must be an empty directory"):
        make_places(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_equal_tables_in_any_order_are_exact() -> None:
    assert compare(ROWS, ROWS[::-1]).exact


@pytest.mark.parametrize(
    ("found", "missing", "unexpected"),
    [
        pytest.param(ROWS[:1], 1, 0, id="lost"),
        pytest.param([*ROWS, ROWS[0]], 0, 1, id="twice"),
        pytest.param([ROWS[0], (NINE, "dublin", 2, 300)], 1, 1, id="counted twice"),
        pytest.param([], 2, 0, id="empty"),
    ],
)
def test_any_difference_is_found(found: list[Row], missing: int, unexpected: int) -> None:
    comparison = compare(ROWS, found)
    assert not comparison.exact
    assert (len(comparison.missing), len(comparison.unexpected)) == (missing, unexpected)


def test_an_empty_answer_proves_nothing() -> None:
    assert not compare([], []).exact


@pytest.mark.parametrize(
    ("found", "counted"),
    [
        pytest.param(ROWS, Score(2, 2), id="exact"),
        pytest.param(ROWS[1:], Score(2, 1, lost=1), id="lost"),
        pytest.param([*ROWS, ROWS[0]], Score(2, 3, doubled=1), id="twice"),
        pytest.param([ROWS[0], (NINE, "dublin", 2, 300)], Score(2, 2, wrong=1), id="wrong"),
        pytest.param([*ROWS, (NINE, "cadiz", 1, 1)], Score(2, 3, wrong=1), id="made up"),
        pytest.param([], Score(), id="not begun"),
    ],
)
def test_readers_rows_are_counted(found: list[Row], counted: Score) -> None:
    later = (NINE + timedelta(minutes=1), "bergen", 1, 100)
    assert score([*ROWS, later], found) == counted, "the later minute is not lost, but not reached"


def test_rows_of_sparks_file_sink_are_read_by_its_log(tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "8").write_text(f'v1\n{{"path":"file://{tmp_path}/compacted"}}\n')
    (log / "9.compact").write_text(f'v1\n{{"path":"file://{tmp_path}/a"}}\n{{"path":"file://{tmp_path}/b"}}\n')
    (log / "10").write_text(f'v1\n{{"path":"file://{tmp_path}/c"}}\n')
    (log / "11").write_text("v1\n")
    (log / ".12.tmp").write_text("half")
    assert committed_files(tmp_path) == tuple(f"{tmp_path}/{name}" for name in "abc")
    assert committed_files(tmp_path / "absent") == ()


def test_why_plain_spark_died_is_in_its_own_words() -> None:
    log = "java.io.Odd: x\n…QueryException: [STREAM_FAILED] Query [id = 7] terminated with exception: Multiple s"
    assert cause(log) == "Multiple s"
    assert cause("py4j: FileAlreadyExistsException: Parent path is not a directory") == "Parent path is not a directory"
    assert cause("nothing") == "its log has no exception"


def test_the_end_of_the_day_closes_every_window_before_it(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path)
    for _ in range(9):
        arrivals.arrive()
    open_windows = sum(orders for _, _, orders, _ in recompute(tmp_path))
    last = arrivals.end_of_day()
    rows = recompute(tmp_path)
    assert open_windows < arrivals.orders - 1
    assert sum(orders for _, _, orders, _ in rows) == arrivals.orders - 1, "all but the last one"
    assert all(minute < last for minute, *_ in rows)


def test_an_act_that_fails_or_is_not_reached_fails_the_demo() -> None:
    good = [Outcome("", True, "") for _ in ACTS]
    assert all_held(good)
    assert not all_held(good[:-1])
    assert not all_held([*good[:-1], Outcome("", False, "")])


def test_the_page_shows_what_the_terminal_shows() -> None:
    page = OnPage()
    page.say("0:01", "·", Said("before the first act", "plain"))
    assert page.board is None
    page.act("Demo, act 2: the disk is lost", "why")
    page.say("0:41", "$", Said("kill -9 812", "action"))
    page.say("0:42", "✗", Said("refused", "bad"))
    dead = Side("plain Spark", "dead", 7, Score(12, 11, wrong=2, lost=1))
    page.keep_score([dead, Side("holdfast", "runs", 8, Score(12, 12))])
    board = page.board
    assert board is not None
    said = [(line.at, line.text, line.bad) for line in board.lines]
    assert said == [("0:42", "refused", True), ("0:41", "kill -9 812", False)]
    assert board.rows == (("plain Spark", "dead", 7, 12, 11, 2, 1, 0), ("holdfast", "runs", 8, 12, 12, 0, 0, 0))
    assert board.bad == {0}
    page.summary([(True, "driver killed", "back"), (False, "stopped", "late")])
    assert page.board is not None
    assert page.board.title == "Demo: something did not hold"
    assert [(line.mark, line.bad) for line in page.board.lines[:2]] == [("✓", False), ("✗", True)]


def test_a_failed_checkpoint_is_told_with_the_pipelines_progress(tmp_path: Path) -> None:
    places = make_places(tmp_path / "demo")
    narrator = Narrator(places)
    failed = LogLine("WARNING", f"checkpoint 3 failed: storage_full: could not write {places.home}/x: no space")
    list(narrator.narrate(BatchCommitted(7, 0.5, 0)))
    (line,) = narrator.narrate(failed)
    assert line.text.startswith("checkpoint 3 failed: storage_full: could not write home/x: no space; ")
    (line,) = narrator.narrate(failed)
    assert line.text == "checkpoint 3 failed: storage_full; the pipeline keeps running: batch 7"


def processes_of(root: Path, but: int = 0) -> list[int]:
    """Living processes whose command line names the demo's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if str(root).encode() in words and int(path.parent.name) not in (but, os.getpid()):
            found.append(int(path.parent.name))
    return found
