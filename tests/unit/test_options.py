"""What an editor and a type checker see of `holdfast.run` is what `Settings` takes."""

import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast
from holdfast import sinks
from holdfast.options import Options
from holdfast.settings import RunSettings, Settings

CALLS = """
import holdfast

def build(spark): return spark.readStream.format("rate").load()
def told(alarm: holdfast.Alarm) -> None: print(alarm.code)

holdfast.run(build, job="orders", home="file:///h", interval="10s", retained=3, alarms=[told])
"""


def test_the_options_are_those_of_settings_with_the_same_types() -> None:
    of_settings = {field.name: field.type for field in dataclasses.fields(Settings)}
    assert {name: hint.__forward_arg__ for name, hint in Options.__annotations__.items()} == of_settings


def test_what_the_runtime_is_given_is_plain_data() -> None:
    components = {field.name for field in dataclasses.fields(Settings)} - {
        field.name for field in dataclasses.fields(RunSettings)
    }
    assert components == {"spark", "alarms", "sink_position"}
    for field in dataclasses.fields(RunSettings):
        words = set(re.findall(r"\w+", re.sub(r"Literal\[.*?\]", "", str(field.type))))
        assert words <= {"str", "int", "bool", "None", "Path", "Mapping", "Duration"}, field.name


@pytest.mark.parametrize("name", ["conf", "spark.sql.shuffle.partitions"])
def test_an_option_of_spark_is_answered_with_where_it_belongs(name: str) -> None:
    with pytest.raises(holdfast.InvalidSettings) as raised:
        Settings.merged(None, {name: "4"})
    assert raised.value.hint is not None
    assert "pass it: spark=SparkSession.builder.config(" in raised.value.hint


def annotations_of(called: object) -> Iterator[str]:
    """Of a function, or of all that a class lets its users call."""
    if inspect.isclass(called):
        for name, member in inspect.getmembers(called):
            if name == "__init__" or not name.startswith("_"):
                yield from annotations_of(member.fget if isinstance(member, property) else member)
    elif inspect.isfunction(called) or inspect.ismethod(called):
        signature = inspect.signature(called)
        yield from (str(parameter.annotation) for parameter in signature.parameters.values())
        yield str(signature.return_annotation)


@pytest.mark.parametrize("name", [name for name in holdfast.__all__ if name != "__version__"])
def test_nothing_that_users_call_takes_or_returns_any(name: str) -> None:
    assert not [hint for hint in annotations_of(getattr(holdfast, name)) if re.search(r"\bAny\b", hint)]


@pytest.mark.parametrize("name", sinks.__all__)
def test_nothing_of_the_sinks_takes_or_returns_any(name: str) -> None:
    assert not [hint for hint in annotations_of(getattr(sinks, name)) if re.search(r"\bAny\b", hint)]


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
