"""Conditions that are usual somewhere, and the ordinary answer to each: one line, what to do, the right exit code."""

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.errors import InvalidSettings
from holdfast.spark.api import start
from holdfast.spark.session import _fresh
from holdfast.spark.user_name import require_a_name
from holdfast.storage.aws_profile import chosen_profile

REDIRECTIONS = {"closed": ">&-", "full": ">/dev/full", "errors closed": "2>&-", "all closed": "<&- >&- 2>&-"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that is started with `--user 4242`."""

    def no_entry(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", no_entry)
    for name in ("HOME", "XDG_DATA_HOME", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)


def shell(command: str, redirection: str) -> "subprocess.CompletedProcess[str]":
    script = f"exec {sys.executable} -m holdfast.cli {command} {redirection}"
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("form", ["--json", "--help"])
def test_an_answer_that_cannot_be_written_is_an_error(home: Path, form: str) -> None:
    for name, why in (("closed", "it is closed"), ("full", "No space left on device")):
        done = shell(f"jobs --home {home} {form}", REDIRECTIONS[name])
        assert done.returncode == 1, name
        assert done.stderr == f"holdfast: could not write to standard output: {why}\n"


@pytest.mark.parametrize("name", REDIRECTIONS)
def test_an_error_has_its_exit_code_whatever_is_closed(home: Path, name: str) -> None:
    done = shell(f"status --home {home} --job orders", REDIRECTIONS[name])
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_closed_stream_is_given_to_no_file(home: Path) -> None:
    code = (
        "import os; from holdfast.cli.standard_streams import with_standard_streams; with_standard_streams(); "
        "assert os.open('/', os.O_RDONLY) > 2; os.write(1, b'into nothing')"
    )
    subprocess.run(["sh", "-c", f'exec {sys.executable} -c "{code}" <&- >&- 2>&-'], check=True)


def test_an_async_pipeline_is_refused(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orders.py").write_text("async def orders(spark):\n    return spark\n")
    assert main(["run", str(tmp_path / "orders.py"), "--home", str(home), "--work", str(tmp_path)]) == 2
    assert "'orders' is an `async def`" in capsys.readouterr().err

    async def build(spark: object) -> object:
        return spark

    with pytest.raises(InvalidSettings, match="async def"):
        start(build, job="orders", home=str(home), work=tmp_path)


@pytest.mark.parametrize("to", ["", " "])
def test_restore_to_an_empty_name_is_not_the_current_directory(
    home: Path, capsys: pytest.CaptureFixture[str], to: str
) -> None:
    assert main(["restore", "--home", str(home), "--job", "orders", "--to", to]) == 2
    assert "it is empty, but must name a directory" in capsys.readouterr().err


def test_the_doctor_says_at_once_that_it_does_not_read_web_servers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "https://me:hunter2@host/driver.log"]) == 2
    printed = capsys.readouterr().err
    assert "not from web servers" in printed
    assert "holdfast doctor -" in printed
    assert "hunter2" not in printed


@pytest.mark.usefixtures("_nobody")
def test_a_user_without_a_home_is_asked_for_a_work_directory(home: Path) -> None:
    with pytest.raises(InvalidSettings, match=f"user {os.getuid()} has no entry in /etc/passwd") as refusal:
        start(lambda spark: spark, job="orders", home=str(home))
    assert "--work" in str(refusal.value.hint)


@pytest.mark.usefixtures("_nobody")
def test_such_a_user_gets_one_line_from_run(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orders.py").write_text("def orders(spark):\n    return spark\n")
    assert main(["run", str(tmp_path / "orders.py"), "--home", str(home)]) == 2
    printed = capsys.readouterr().err
    assert "no entry in /etc/passwd" in printed
    assert len(printed.splitlines()) == 2


@pytest.mark.usefixtures("_nobody")
def test_a_user_without_a_name_is_told_why_spark_will_not_start() -> None:
    with pytest.raises(InvalidSettings, match=r"no entry in /etc/passwd, which Java needs") as refusal:
        require_a_name()
    assert "/etc/passwd" in str(refusal.value.hint)


@pytest.mark.usefixtures("_nobody")
def test_a_user_without_a_home_has_no_aws_profile() -> None:
    assert chosen_profile(None, {}).name == "default"


def test_what_spark_prints_is_its_owners_alone(tmp_path: Path) -> None:
    with _fresh(tmp_path / "logs" / "orders.spark.log") as output:
        output.write(b"spark.hadoop.fs.s3a.secret.key=x")
    assert stat.S_IMODE((tmp_path / "logs" / "orders.spark.log").stat().st_mode) == 0o600
