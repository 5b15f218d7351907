"""A session of Spark Connect is refused, with the reason, before anything is written."""

import subprocess
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import InvalidSettings
from holdfast.spark.connect import refuse_connect_by
from tests.compat.environments import interpreter_with_connect
from tests.patience import PATIENCE

CLIENT = """
import sys
import holdfast
from holdfast.errors import InvalidSettings
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[1]").getOrCreate()
place = sys.argv[1]

def rates(given):
    return spark.readStream.format("rate").load()

for build, session in ((rates, spark), (rates(spark).writeStream.format("noop"), None)):
    try:
        holdfast.run(build, job="rates", home=f"file://{place}/home", work=f"{place}/work", spark=session)
    except InvalidSettings as error:
        print(f"refused {error.exit_code} {error}")
"""


@pytest.mark.long
def test_a_client_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(CLIENT)
    (tmp_path / "home").mkdir()
    command = [interpreter_with_connect(), str(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    refused = [line for line in done.stdout.splitlines() if line.startswith("refused")]
    assert len(refused) == 2, done.stderr[-3000:]
    assert refused[0].startswith("refused 2 could not use the SparkSession: it is a client of Spark Connect")
    assert refused[1].startswith("refused 2 could not use the DataStreamWriter: it is a client of Spark Connect")
    assert "Try: run the pipeline in the driver" in done.stdout
    assert list((tmp_path / "home").iterdir()) == []
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_no_session_is_made_where_it_would_be_one(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(InvalidSettings, match=f"with {name} set it is a client of Spark Connect"):
        holdfast.run(lambda spark: None, job="rates", home=f"file://{tmp_path}")  # type: ignore[arg-type, return-value]
    assert list(tmp_path.iterdir()) == []
    refuse_connect_by({})
