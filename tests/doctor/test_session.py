"""The doctor's Spark says nothing before its answer, and leaves the environment as it was."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from holdfast.doctor.spark.session import quiet_unless_it_fails

OPTIONS = "SPARK_SUBMIT_OPTS"


@pytest.mark.parametrize("before", [None, "-Dhttp.proxyHost=proxy"])
def test_the_jvm_is_told_to_be_quiet_before_it_starts(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OPTIONS, raising=False)
    if before is not None:
        monkeypatch.setenv(OPTIONS, before)
    with quiet_unless_it_fails():
        *others, option = os.environ[OPTIONS].split(" ")
        settings = Path(unquote(urlsplit(option.partition("=")[2]).path))
        assert "rootLogger.level = error" in settings.read_text()
        assert others == ([before] if before else [])
    assert os.environ.get(OPTIONS) == before


def test_who_says_how_spark_logs_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS, "-Dlog4j2.configurationFile=mine.properties")
    with quiet_unless_it_fails():
        assert os.environ[OPTIONS] == "-Dlog4j2.configurationFile=mine.properties"
