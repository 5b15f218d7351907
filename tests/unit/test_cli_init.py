"""`holdfast init`: what it writes fits the product, Kubernetes and systemd. It runs: tests/end_to_end/test_init.py."""

import ast
import json
import shutil
import subprocess
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from holdfast.cli.configuration import read_configuration
from holdfast.cli.main import main
from holdfast.settings import Settings, seconds


@pytest.fixture
def place(tmp_path: Path) -> Path:
    assert main(["init", str(tmp_path / "new"), "--job", "sales"]) == 0
    return tmp_path / "new"


def test_everything_is_written_and_named_after_the_job(place: Path) -> None:
    texts = {path.relative_to(place).as_posix(): path.read_text() for path in place.rglob("*") if path.is_file()}
    assert {"sales.py", "test_sales.py", "holdfast.toml", "compose.yaml", "README.md"} <= texts.keys()
    assert {"deploy/sales.service", "deploy/sales.yaml"} <= texts.keys()
    assert not [name for name, text in texts.items() if "{{" in text or "orders" in text]
    for name in ("sales.py", "test_sales.py"):
        ast.parse(texts[name])


@pytest.mark.parametrize("profile", ["dev", "compose", "prod"])
def test_every_profile_is_valid(place: Path, profile: str) -> None:
    found = read_configuration(None, profile, place)
    assert found.file_of("sales") == str(place / "sales.py")
    assert found.of_run("sales")["sink"].startswith("delta:")
    assert found.home is not None


def test_what_is_there_stays(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "sales.py").write_text("mine")
    assert main(["init", str(place)]) == 2
    assert "is not an empty directory" in capsys.readouterr().err
    assert (place / "sales.py").read_text() == "mine"


@pytest.mark.parametrize("job", ["a-b", "class", "Orders", "../x"])
def test_a_name_that_python_does_not_take_is_refused(
    tmp_path: Path, job: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "new"), "--job", job]) == 2
    assert f"job={job!r} is not valid" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_it_ends_with_what_to_type_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "new")]) == 0
    assert f"cd {tmp_path / 'new'} && holdfast run orders" in capsys.readouterr().out


def test_json_lists_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "new"), "--json"]) == 0
    assert "orders.py" in json.loads(capsys.readouterr().out)["files"]


def test_kubernetes_and_compose_read_their_files(place: Path) -> None:
    (manifest,) = yaml.safe_load_all((place / "deploy" / "sales.yaml").read_text())
    kubernetes_validate.validate(manifest, "1.37", strict=True)
    pod = manifest["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > seconds("stop_timeout", Settings().stop_timeout)
    compose = yaml.safe_load((place / "compose.yaml").read_text())
    assert all(":" in service["image"] for service in compose["services"].values())


def test_systemd_accepts_the_unit(place: Path) -> None:
    if (analyze := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd-analyze is not here: apt-get install systemd")
    unit = place / "deploy" / "sales.service"
    unit.write_text(unit.read_text().replace("/opt/holdfast/bin/holdfast", shutil.which("true") or "/bin/true"))
    verified = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
