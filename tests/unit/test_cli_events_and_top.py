"""`holdfast events` tells what happened, in order, and goes on; `holdfast top` shows all jobs, live on a terminal."""

import json
import os
import pty
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.cli.events import following
from holdfast.cli.happenings import happenings
from holdfast.cli.home_reader import HomeReader
from holdfast.cli.main import main
from holdfast.cli.top import screen
from holdfast.repository.entries import AnyEntry
from tests.patience import PATIENCE
from tests.unit.job_histories import History


def history_of(home: Path, job: str = "orders") -> History:
    history = History(home, job, start=datetime.now(UTC) - timedelta(minutes=5))
    history.run()
    history.start(1, batch=3)
    history.complete(1, batch=3)
    history.fail(2)
    history.restart()
    history.name("good", 1)
    history.delete("good", 1)
    history.damage(1)
    history.retire(1)
    history.end("it failed")
    return history


def test_each_entry_is_one_line(tmp_path: Path) -> None:
    told = happenings(history_of(tmp_path / "home").state())
    assert [each.text for each in told] == [
        "run 1 claimed the job on build-3, pid 4711",
        "checkpoint 1 began at batch 3",
        "checkpoint 1 completed at batch 3 in 1.2s, 500 kB new",
        "checkpoint 2 failed: expired: took longer than 10m",
        "the query died (user code), restart 1: ValueError: a poisonous row",
        "checkpoint 1 is now the savepoint good",
        "the savepoint good (checkpoint 1) is an ordinary checkpoint again",
        "checkpoint 1 is damaged: blobs/aa/aa.1 has another digest",
        "1 checkpoint retired: 1",
        "run 1 ended: it failed",
    ]
    assert [each.sequence for each in told if each.bad] == [4, 5, 8]


def test_every_kind_of_entry_has_words(tmp_path: Path) -> None:
    """A kind without words would be a line `None`."""
    from holdfast.cli import happenings as module

    source = Path(module.__file__).read_text()
    assert [kind.__name__ for kind in AnyEntry.__args__ if f"case {kind.__name__}(" not in source] == []


def test_the_command_prints_the_newest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = history_of(tmp_path / "home")
    home = ["--home", f"file://{history.home}", "--job", "orders"]
    assert main(["events", *home, "--limit", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition("  ")[2] for line in lines] == ["1 checkpoint retired: 1", "run 1 ended: it failed"]
    assert main(["events", *home, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [event["kind"] for event in document["events"]][:2] == ["run-started", "checkpoint-started"]
    assert main(["events", "--home", f"file://{history.home}", "--job", "nobody"]) == 3


def test_following_goes_on_with_what_happens(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    looks = iter([lambda: history.complete(1, batch=3), lambda: None, lambda: history.fail(2), None])

    def over() -> bool:
        look = next(looks)
        if look is not None:
            look()
        return look is None

    told = [each.text for each in following(history.store, history.state().head, over)]
    assert [text.partition(" at ")[0] for text in told] == ["checkpoint 1 completed", told[1]]
    assert told[1].startswith("checkpoint 2 failed: expired")


def test_following_prints_what_happens_in_a_real_process(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    command = [sys.executable, "-u", "-m", "holdfast.cli", "events", "--follow", "--every", "100ms"]
    command += ["--home", f"file://{history.home}", "--job", "orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "claimed the job" in process.stdout.readline()
        history.complete(1, batch=3)
        assert "checkpoint 1 completed at batch 3" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_following_as_json_is_one_line_per_event_and_one_for_the_end(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    command = [sys.executable, "-u", "-m", "holdfast.cli", "events", "--follow", "--every", "100ms", "--json"]
    command += ["--home", f"file://{history.home}", "--job", "orders"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["job"], first["kind"], first["bad"]) == ("orders", "run-started", False)
        history.fail(1)
        assert json.loads(process.stdout.readline())["bad"] is True
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        assert [json.loads(line)["error"]["message"] for line in process.stdout] == ["interrupted"]


def test_an_error_while_following_as_json_is_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["events", "--home", f"file://{tmp_path}", "--job", "nobody", "--json"]
    assert main([*arguments, "--follow"]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["error"]["exit_code"] == 3
    assert main(arguments) == 3
    assert len(capsys.readouterr().out.splitlines()) > 1, "the next command is as always"


def test_top_shows_the_worst_first_and_what_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    well = History(tmp_path / "home", "a-well")
    well.run()
    well.complete(1, batch=3)
    well.beat()
    gone = History(tmp_path / "home", "b-gone", start=datetime.now(UTC) - timedelta(minutes=10))
    gone.run()
    gone.beat()
    assert main(["top", "--home", f"file://{tmp_path / 'home'}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["job", "b-gone", "a-well"]
    reader = HomeReader(f"file://{tmp_path / 'home'}")
    reader.refresh()
    (tmp_path / "home").rename(tmp_path / "away")
    (tmp_path / "home").write_text("no directory")
    head = screen(reader.refresh()).renderables[0]
    assert "1 need attention, 1 well" in str(head)
    assert "the home is unreachable since" in str(head)


def test_top_on_a_terminal_is_live(tmp_path: Path) -> None:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.beat()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "holdfast.cli", "top", "--home", f"file://{history.home}", "--every", "500ms"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "140", "LINES": "30"}
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
            _read_until(ours, b"1 at batch 3")
            history.complete(2, batch=77)
            _read_until(ours, b"2 at batch 77")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 130
    finally:
        os.close(ours)
        os.close(theirs)


def _read_until(terminal: int, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 65536)
