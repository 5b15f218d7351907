"""What README and docs do with logs: each `holdfast doctor LOGS` and the query of its table end as they say."""

import io
import re
import sys
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import main
from tests.doctor.collection import CASES
from tests.documents import PAGES, Block, Command, blocks, every_command

FOLLOWED = "--follow"
"""Until Ctrl-C: tests/end_to_end/test_following_logs.py."""
COMMANDS = [command for command in every_command() if command.reads_logs and FOLLOWED not in command.line]
QUERIES = [block for page in PAGES for block in blocks(page) if block.language == "sql"]

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_logs_with_something_critical_end_with_1(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pasted = (CASES / "seed-003-magic-number.log").read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pasted)))
    assert main(command.words({"(LOGS|logs/|/var/log/flink/)": str(CASES)})) == 1
    assert "critical" in capsys.readouterr().out


@pytest.mark.parametrize("query", QUERIES, ids=lambda block: block.page.name)
def test_the_table_is_asked(query: Block, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = tmp_path_factory.mktemp("kept") / "events"
    assert main(("doctor", str(CASES), "--keep", str(table))) == 1
    rows = spark.sql(re.sub(r"\bDIR\b", str(table), query.text)).collect()
    assert "java.lang.OutOfMemoryError" in {row["root"] for row in rows}
    assert all(row["count(1)"] >= 1 for row in rows)
