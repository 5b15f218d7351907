"""`holdfast run` of a pipeline whose own code fails each time: how it ends, and what the history says."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.harness import WARM_JVM
from tests.patience import PATIENCE

PIPELINE = """
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

@F.udf(LongType())
def parse(value):
    raise ValueError(f"Corruption: cannot parse {value}")

def orders(spark):
    rows = spark.readStream.schema("value LONG").json(__file__.replace("pipeline.py", "in"))
    return rows.select(parse("value").alias("value"))
"""


def test_the_same_error_of_the_users_code_ends_the_job_with_what_and_where(tmp_path: Path) -> None:
    """The message says "Corruption", which is the user's word: no checkpoint is blamed for it."""
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"value": 17}\n')
    home = tmp_path / "home"
    home.mkdir()
    where = ["--home", f"file://{home}", "--job", "orders"]
    command = [*where, "--sink", f"files:{tmp_path / 'out'}", "--work", str(tmp_path / "work")]
    command += ["--master", "local[1]", "--restart-delay", "100ms", "--conf", "spark.ui.enabled=false"]
    done = _holdfast("run", str(tmp_path / "pipeline.py"), *command, **WARM_JVM.environment())

    assert done.returncode == 1, done.stderr
    message, hint = done.stderr.splitlines()[-2:]
    error = "ValueError: Corruption: cannot parse 17 (pipeline.py, line 7, in parse)"
    assert message == (
        f"holdfast: job 'orders' failed permanently: the pipeline's own code failed 3 times in the same way: {error}"
    )
    assert hint.startswith("Try: correct the pipeline's code")

    status = json.loads(_holdfast("status", *where, "--json").stdout)
    restart = status["last_restart"]
    assert (status["restarts"], restart["cause"], restart["message"]) == (2, "user code", error)
    assert restart["duration_ms"] >= 200, "with the delay, which had doubled"
    assert error in status["ended_reason"]
    shown = _holdfast("checkpoints", *where).stdout
    assert shown.count("user code") == 2
    assert not list((tmp_path / "work").glob("orders/*.aside"))


def _holdfast(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast.cli", *arguments]
    environment = {**os.environ, "COLUMNS": "200", **more}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
