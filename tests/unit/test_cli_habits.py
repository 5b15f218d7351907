"""What people try first: help that fits, -o json, --watch, completion, variables, holdfast.toml, a log in JSON."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast.cli import reading
from holdfast.cli.configuration import Configuration, read_configuration
from holdfast.cli.interrupting import command_of
from holdfast.cli.logs import JsonFormatter
from holdfast.cli.main import app, main
from holdfast.cli.reading import show_again, wants_json
from holdfast.cli.run_options import FIRST, OPTION_HELP, variable_of
from holdfast.errors import InvalidSettings, StorageUnreachable
from tests.unit.job_histories import History

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOLDFAST_HOME", "HOLDFAST_JOB", "HOLDFAST_DEBUG", "COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def history(tmp_path: Path) -> History:
    history = History(tmp_path / "home")
    history.run()
    history.complete(1, batch=3)
    history.fail(2)
    history.end()
    return history


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


class TestHelp:
    @pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS)], ids=" ".join)
    def test_it_fits_80_columns_and_says_no_value(
        self, words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        code, out, _ = ended(capsys, *words, "--help")
        assert code == 0
        assert max(map(len, out.splitlines())) <= 80
        assert "VALUE" not in out.replace("KEY=VALUE", "")
        assert "..." not in out.partition("\n")[2].replace("LOGS...", ""), "a line that was cut"

    def test_eight_options_of_run_come_first(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = ended(capsys, "run", "--help")
        groups = re.findall(r"^(\S.*):$", out, re.MULTILINE)
        assert groups[:2] == ["Arguments", FIRST]
        first = out.split(f"{FIRST}:\n")[1].split("\n\n")[0]
        assert len(re.findall(r"^  --", first, re.MULTILINE)) == 8

    def test_choices_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = ended(capsys, "run", "--help")
        assert "--plans prefer|require|off" in out


class TestOutput:
    def test_o_json_is_json(self, history: History, capsys: pytest.CaptureFixture[str]) -> None:
        home = f"file://{history.home}"
        same = [ended(capsys, "checkpoints", "orders", "--home", home, *how)[1] for how in (["--json"], ["-o", "json"])]
        assert json.loads(same[0]) == json.loads(same[1])

    def test_an_error_is_json_too(self, history: History, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = ended(capsys, "status", "refunds", "--home", f"file://{history.home}", "-o", "json")
        assert code == 3
        assert json.loads(out)["error"]["exit_code"] == 3

    def test_wide_has_every_column(
        self, history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COLUMNS", "80")
        home = f"file://{history.home}"
        narrow = ended(capsys, "checkpoints", "orders", "--home", home)[1]
        wide = ended(capsys, "checkpoints", "orders", "--home", home, "-o", "wide")[1]
        assert "shards" not in narrow.splitlines()[0]
        assert {"kind", "shards", "reason"} <= {*wide.splitlines()[0].split()}

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("status --json", True),
            ("status -o json", True),
            ("status --output=json", True),
            ("status -ojson", True),
            ("status -o wide", False),
            ("doctor logs -o json", False),
            ("doctor -- --json", False),
        ],
    )
    def test_which_lines_ask_for_json(self, line: str, wanted: bool) -> None:
        assert wants_json(line.split()) is wanted

    def test_another_form_is_refused(self, history: History, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = ended(capsys, "jobs", "--home", f"file://{history.home}", "-o", "yaml")
        assert code == 2
        assert "'yaml' is not one of json, wide" in err


class TestWatch:
    def test_it_is_shown_until_it_is_over_and_trouble_passes(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown: list[int] = []

        def show() -> None:
            shown.append(len(shown))
            if len(shown) == 2:
                raise StorageUnreachable("the home is away")

        rounds = iter([False, False, True])
        show_again(show, lambda: next(rounds))
        assert shown == [0, 1, 2]
        assert "the home is away" in capsys.readouterr().err

    def test_what_cannot_be_shown_at_first_is_an_error(self) -> None:
        def show() -> None:
            raise StorageUnreachable("the home is away")

        with pytest.raises(StorageUnreachable):
            show_again(show, lambda: True)

    @pytest.mark.parametrize("command", ["jobs", "status orders", "checkpoints orders", "show orders@1"])
    def test_reading_commands_have_it(
        self, history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.setattr(reading, "show_again", lambda show, over: (show(), show()))
        code, out, err = ended(capsys, *command.split(), "--home", f"file://{history.home}", "--watch")
        assert code == 0, err
        assert out.count(out[: len(out) // 2].splitlines()[0]) >= 2

    def test_json_is_one_document(self, history: History, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = ended(capsys, "jobs", "--home", f"file://{history.home}", "--watch", "--json")
        assert code == 2
        assert "exclude each other" in err


class TestCompletion:
    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_a_shell_gets_its_script(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = ended(capsys, "completion", shell)
        assert code == 0
        assert "_HOLDFAST_COMPLETE" in out

    def test_another_shell_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = ended(capsys, "completion", "csh")
        assert code == 2
        assert "must be one of bash, zsh, fish" in err

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("holdfast sta", "status"),
            ("holdfast run f.py --plans r", "require"),
            ("holdfast show --he", "--health"),
        ],
    )
    def test_bash_gets_what_fits(
        self, words: str, expected: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("_HOLDFAST_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert expected in ended(capsys)[1].split()


class TestVariables:
    def test_every_option_of_run_has_one(self) -> None:
        found = {each.name: each.envvar for each in COMMANDS["run"].params}
        named = {name for name in found if name not in ("file", "as_json", "help")}
        assert named >= OPTION_HELP.keys()
        assert {name: found[name] for name in OPTION_HELP} == {name: variable_of(name) for name in OPTION_HELP}
        assert all(found[name] for name in named)

    def test_a_wrong_one_is_refused_before_anything_is_touched(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_INTERVAL", "soon")
        code, _, err = ended(capsys, "run", "orders.py", "--home", f"file://{tmp_path}/home")
        assert code == 2
        assert "interval='soon' is not valid" in err

    def test_other_commands_have_theirs(
        self, history: History, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_CHECKPOINTS_LIMIT", "1")
        _, out, _ = ended(capsys, "checkpoints", "orders", "--home", f"file://{history.home}", "--json")
        assert len(json.loads(out)["checkpoints"]) == 1


TOML = """
home = "file:///dev-home"
interval = "30s"
profile = "dev"

[jobs.orders]
file = "pipelines/orders.py"
sink = "delta:/data/orders"
interval = "10s"
conf."spark.sql.shuffle.partitions" = 8

[profiles.dev]
retained = 3

[profiles.prod]
home = "s3://bucket/holdfast"
alarms = ["https://hooks.example.org/x"]
interval = "5m"

[profiles.prod.jobs.orders]
sink = "delta:/mnt/orders"
"""


def configured(tmp_path: Path, text: str = TOML, profile: str | None = None) -> Configuration:
    (tmp_path / "holdfast.toml").write_text(text)
    return read_configuration(None, profile, tmp_path)


class TestConfiguration:
    def test_without_a_file_nothing_is_set(self, tmp_path: Path) -> None:
        assert read_configuration(None, None, tmp_path) == Configuration()

    def test_the_more_special_place_wins(self, tmp_path: Path) -> None:
        dev, prod = configured(tmp_path), configured(tmp_path, profile="prod")
        assert (dev.home, prod.home) == ("file:///dev-home", "s3://bucket/holdfast")
        assert dev.of_run("orders")["retained"] == 3
        assert dev.of_run(None)["interval"] == "30s"
        assert prod.of_run(None)["interval"] == "5m"
        assert prod.of_run("orders")["interval"] == "10s", "a job is more special than a profile"
        assert prod.of_run("orders")["sink"] == "delta:/mnt/orders"
        assert dev.file_of("orders") == str(tmp_path / "pipelines/orders.py")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("interval = 'soon'", "interval='soon' is not valid"),
            ("intervall = '10s'", "did you mean 'interval'"),
            ("new_life = true", "it is for one start"),
            ("[jobs.orders]\nhome = 's3://x/y'", "could not use 'home' in [jobs.orders]"),
            ("[jobs.orders]\nretained = 'many'", "retained='many' is not valid"),
            ("[jobs.'a/b']\nretained = 3", "job='a/b' is not valid"),
            ("profile = 'test'\n[profiles.dev]\nretained = 3", "could not use profile 'test'"),
            ("[profiles.dev]\nfile = 'x.py'", "could not use 'file' in [profiles.dev]"),
            ("jobs = 3", "jobs must be a table"),
            ("home = ", "could not read"),
            ("conf = 3", "conf=3 is not valid"),
        ],
    )
    def test_what_is_wrong_is_named_with_its_place(self, tmp_path: Path, text: str, why: str) -> None:
        with pytest.raises(InvalidSettings) as raised:
            configured(tmp_path, text)
        assert why in str(raised.value)

    def test_a_profile_without_a_file_and_a_file_that_is_not_there_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidSettings, match=r"there is no holdfast\.toml"):
            read_configuration(None, "prod", tmp_path)
        with pytest.raises(InvalidSettings, match="could not read"):
            read_configuration(tmp_path / "other.toml", None, tmp_path)

    def test_commands_take_home_and_job_from_it(
        self, history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        profile = f"[profiles.dev]\nhome = 'file://{history.home}'\njob = 'orders'"
        configured(tmp_path, f"home = 'file:///nowhere'\n{profile}")
        code, out, err = ended(capsys, "--profile", "dev", "status", "--json")
        assert code == 0, err
        assert json.loads(out)["job"] == "orders"
        assert json.loads(ended(capsys, "--profile", "dev", "savepoint", "list", "--json")[1])["job"] == "orders"
        assert ended(capsys, "--profile", "dev", "status", "refunds")[0] == 3, "what is typed goes first"
        assert ended(capsys, "status", "orders")[0] == 6, "the other home"

    @pytest.mark.parametrize(
        ("line", "why"),
        [
            ("run orders", "there is no file"),
            ("run orders --interval never", "interval='never' is not valid"),
            ("run orders --job refunds", "two jobs are named"),
            ("run refunds", "names no pipeline file"),
        ],
    )
    def test_run_takes_a_job_of_it(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, why: str
    ) -> None:
        (tmp_path / "home").mkdir()
        jobs = "[jobs.orders]\nfile = 'absent.py'\n[jobs.refunds]\nretained = 3"
        configured(tmp_path, f"home = 'file://{tmp_path}/home'\n{jobs}")
        code, _, err = ended(capsys, *line.split())
        assert code == 2
        assert why in err

    def test_settings_of_a_job_that_would_be_missed_are_an_error(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "pipeline.py").write_text("def orders(spark):\n    return 1\n")
        configured(tmp_path, f"home = 'file://{tmp_path}/home'\n[jobs.orders]\nretained = 3")
        code, _, err = ended(capsys, "run", "pipeline.py")
        assert code == 2
        assert "job 'orders' has settings in" in err
        assert "Try: holdfast run pipeline.py --job orders" in err

    def test_the_command_behind_a_profile_is_known(self) -> None:
        assert command_of(["--profile", "prod", "run", "orders"]) == "run"
        assert command_of(["--version"]) == ""


class TestLogFormat:
    def test_a_line_is_one_json_object(self, tracebacks: Path) -> None:
        record = logging.makeLogRecord(
            {"levelname": "WARNING", "msg": "orders: checkpoint 3 failed", "job": "orders", "created": 0.0}
        )
        try:
            raise ValueError("two\nlines")
        except ValueError as error:
            record.exc_info = (type(error), error, None)
        document = json.loads(JsonFormatter().format(record))
        assert Path(document.pop("traceback_in")).parent == tracebacks
        assert document == {
            "at": "1970-01-01T00:00:00Z",
            "level": "warning",
            "job": "orders",
            "message": "checkpoint 3 failed",
            "error": "ValueError: two lines",
        }

    def test_another_format_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = ended(capsys, "run", "x.py", "--home", f"file://{tmp_path}", "--log-format", "xml")
        assert code == 2
        assert "log_format='xml' is not valid: must be one of text, json" in err
