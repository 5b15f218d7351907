"""Nothing from outside steers a terminal, forges a line of the log, or shows the secrets of a URL."""

import io
import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.checkpoint.compatibility import differences
from holdfast.checkpoint.query_facts import QueryFacts, Source
from holdfast.cli.logs import OneLineFormatter
from holdfast.cli.main import main
from holdfast.cli.output import json_text, print_message
from holdfast.cli.terminal import SafeConsole
from holdfast.errors import HoldfastError, InvalidSettings
from holdfast.job_log import log
from holdfast.runtime.errors_and_reasons import message_of
from holdfast.showing import masked, visible
from tests.unit.job_histories import ELSEWHERE, History

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31mred\u202e\r\x08"


def harmless(text: str) -> bool:
    return not set(text) & set("\x1b\x07\x9b\u202e\r\x08\x7f")


def test_control_characters_are_spelt_out_and_text_stays() -> None:
    assert visible("a\x1b[2Jb\x9bc\x7f\u202ed\x00") == "a\\x1b[2Jb\\x9bc\\x7f\\u202ed\\x00"
    assert visible("Ärger, 日本語 🎉\n\tnext") == "Ärger, 日本語 🎉\n\tnext"


def test_messages_and_tables_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(f"owner is {EVIL}")
    console = SafeConsole(file=(out := io.StringIO()), force_terminal=True, width=200, highlight=False)
    console.print(f"owner is {EVIL}", style="bold")
    assert harmless(capsys.readouterr().err)
    text = out.getvalue()
    assert text.count("\x1b") == 2  # the console's own: bold, and back
    assert "\\x1b]0;owned" in text


def test_a_json_document_is_harmless_and_the_same_document() -> None:
    text = json_text({"host": EVIL})
    assert harmless(text)
    assert json.loads(text) == {"host": EVIL}


def test_log_lines_are_harmless_and_cannot_be_forged() -> None:
    handler = logging.StreamHandler(out := io.StringIO())
    handler.setFormatter(OneLineFormatter())
    log.logger.addHandler(handler)
    try:
        log.warning("request of %s", f"{EVIL}\n2026-01-01T00:00:00Z INFO    all is well")
        try:
            raise ValueError(EVIL)
        except ValueError:
            log.exception("failed on jdbc:postgresql://u:pw@db/x")
    finally:
        log.logger.removeHandler(handler)
    assert harmless(out.getvalue())
    assert not any(line.startswith("2026-01-01T00:00:00Z") for line in out.getvalue().splitlines())
    assert "pw" not in out.getvalue()


@pytest.mark.parametrize("command", [("status",), ("jobs",), ("status", "--json"), ("jobs", "--json")])
def test_what_another_process_says_of_itself_is_harmless(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    history = History(tmp_path, start=datetime.now(UTC))
    history.run(replace(ELSEWHERE, host=EVIL, identity=EVIL))
    history.beat()
    job = ("--job", "orders") if command[0] == "status" else ()
    main([*command, "--home", f"file://{tmp_path}", *job])
    printed = capsys.readouterr()
    assert harmless(printed.out + printed.err)
    assert "owned" in printed.out + printed.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ftp://me:hunter2@host/x", "ftp://***@host/x"),
        ("weird+x://me:hunter2@host/x", "weird+x://***@host/x"),
        ("https://ghp_abc@github.example/x", "https://***@github.example/x"),
        ("hdfs://a:1/x mongodb+srv://u:p%40@h", "hdfs://a:1/x mongodb+srv://***@h"),
        ("abfss://box@acc.dfs.core.windows.net/x", "abfss://box@acc.dfs.core.windows.net/x"),
        ("https://h/x?sv=1&sig=a%2Bb&se=2", "https://h/x?sv=1&sig=***&se=2"),
        ("https://h/x?X-Amz-Signature=aa&X-Amz-Credential=b", "https://h/x?X-Amz-Signature=***&X-Amz-Credential=***"),
        ("s3://b/x?endpoint=http://h:9&secret_key=k", "s3://b/x?endpoint=http://h:9&secret_key=***"),
        ("jdbc:sqlserver://h;user=me;password=pw;x=1", "jdbc:sqlserver://h;user=me;password=***;x=1"),
        ("jdbc:oracle:thin:me/pw@//h:1521/x", "jdbc:oracle:thin:***@//h:1521/x"),
        ("jdbc:mysql://h/x?user=a&password=pw", "jdbc:mysql://h/x?user=a&password=***"),
        ("at 12:30, mail a@b.example: no url", "at 12:30, mail a@b.example: no url"),
        ("file:///data/a?b", "file:///data/a?b"),
    ],
)
def test_urls_are_shown_without_their_secrets(text: str, expected: str) -> None:
    assert masked(text) == expected
    assert masked(expected) == expected
    error = HoldfastError(f"could not open {text}", hint=text)
    assert expected in str(error)
    assert error.hint == expected
    assert masked(repr(text)) == repr(expected)


@pytest.mark.parametrize("command", ["jobs", "status", "checkpoints", "verify", "collect"])
def test_a_home_of_an_unknown_scheme_keeps_its_password(capsys: pytest.CaptureFixture[str], command: str) -> None:
    job = [] if command in ("jobs", "verify", "collect") else ["--job", "orders"]
    code = main([command, "--home", "sftp://me:hunter2@host/x?token=abc", *job])
    printed = capsys.readouterr()
    assert code == InvalidSettings.exit_code, printed.err
    assert "hunter2" not in printed.err + printed.out
    assert "abc" not in printed.err + printed.out


def test_what_the_history_keeps_of_an_error_has_no_password() -> None:
    assert "hunter2" not in message_of(ValueError("could not connect to jdbc:mysql://me:hunter2@db/x"))


def test_a_source_whose_password_changed_is_the_same_source() -> None:
    held, coming = (
        QueryFacts(sources=(Source(kind="jdbc", place=f"jdbc:mysql://me:{word}@db/x"),)) for word in ("old", "new")
    )
    assert [d for d in differences(held, coming) if d.refused] == []
