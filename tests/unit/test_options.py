"""What an editor and a type checker see of `holdfast.run` is what `Settings` takes."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.options import Options
from holdfast.settings import Settings

CALLS = """
import holdfast

def build(spark): return spark.readStream.format("rate").load()
def told(alarm: holdfast.Alarm) -> None: print(alarm.code)

holdfast.run(build, job="orders", home="file:///h", interval="10s", retained=3, alarms=[told])
"""


def test_the_options_are_those_of_settings_with_the_same_types() -> None:
    of_settings = {field.name: field.type for field in dataclasses.fields(Settings)}
    assert {name: hint.__forward_arg__ for name, hint in Options.__annotations__.items()} == of_settings


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("", "Success"),
        (
            'holdfast.run(build, job="orders", home="file:///h", intervall="10s")',
            'Unexpected keyword argument "intervall"',
        ),
        ('holdfast.run(build, job="orders", home="file:///h", retained="3")', 'Argument "retained" to "run"'),
        ('holdfast.run(build, job="orders", home="file:///h", carrier="pigeon")', 'Argument "carrier" to "run"'),
    ],
)
def test_a_type_checker_knows_them(tmp_path: Path, wrong: str, said: str) -> None:
    program = tmp_path / "orders.py"
    program.write_text(CALLS + wrong + "\n")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--ignore-missing-imports", "orders.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(Path(__file__).parents[2] / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said in checked.stdout, checked.stdout + checked.stderr
