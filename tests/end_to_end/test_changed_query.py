"""A query that changed between two runs of `holdfast run`: refused, forced, and put right again, nothing lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.harness import WARM_JVM, Pipeline
from tests.patience import PATIENCE

FILES = 14
PIPELINE = """
from pyspark.sql import functions as F

def counts(spark):
    events = spark.readStream.schema("at TIMESTAMP, key INT, value LONG").option("maxFilesPerTrigger", 4)
    late = events.json({source!r}).withWatermark("at", "1 second")
    groups = late.withColumn({name!r}, F.expr({key!r})).groupBy(F.window("at", "5 seconds"), {name!r})
    counted = groups.agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    return counted.selectExpr("window.start AS start", "INT({name}) AS key", "n", "total")
"""


class Deployment:
    """One job, whose pipeline file is edited between runs."""

    def __init__(self, root: Path) -> None:
        self.pipeline = Pipeline(root, files=FILES)
        self._file = root / "counts.py"
        self._later = root / "later"
        self._later.mkdir()
        for path in sorted(self.pipeline.source.iterdir())[FILES // 2 :]:
            path.rename(self._later / path.name)

    def run(self, *options: str, key: str = "key", name: str = "key") -> subprocess.CompletedProcess[str]:
        self._file.write_text(PIPELINE.format(source=str(self.pipeline.source), key=key, name=name))
        command = [sys.executable, "-m", "holdfast.cli", "run", str(self._file), "--trigger", "available-now"]
        command += ["--home", f"file://{self.pipeline.home}", "--work", str(self.pipeline.work)]
        command += ["--sink", f"delta:{self.pipeline.output}", *options]
        environment = {**os.environ, **WARM_JVM.environment()}
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)

    def more_input(self, files: int | None = None) -> None:
        for path in sorted(self._later.iterdir())[:files]:
            path.rename(self.pipeline.source / path.name)


@pytest.mark.long
def test_a_changed_query_is_refused_forced_or_put_right(tmp_path: Path) -> None:
    job = Deployment(tmp_path)
    assert job.run().returncode == 0
    published = job.pipeline.visible()
    assert published
    job.more_input(6)

    entries = job.pipeline.entries()
    for here in (True, False):
        if not here:  # the checkpoint is looked at without being restored
            job.pipeline.work.rename(tmp_path / "elsewhere")
        refused = job.run("--json", key="BIGINT(key)")
        assert refused.returncode == 2, refused.stderr
        for words in ("aggregation (operator 0): key", "key integer", "key long", "Try:", "--force"):
            assert words in refused.stderr
        assert "Traceback" not in refused.stderr
        found = json.loads(refused.stdout)["differences"]
        assert [(d["subject"], d["refused"]) for d in found] == [("aggregation (operator 0): key", True)]
        assert job.pipeline.visible() == published
        assert job.pipeline.entries() == entries, "not even claimed"
        assert bool([*job.pipeline.work.rglob("commits")]) == here, "nothing was restored"
    shutil.rmtree(job.pipeline.work, ignore_errors=True)  # Spark's log is there
    (tmp_path / "elsewhere").rename(job.pipeline.work)

    resumed = job.run("--json", "--profile-start")
    assert resumed.returncode == 0, resumed.stderr
    profile = {span["phase"]: span for span in json.loads(resumed.stdout)["start"]}
    steps = ("journal", "planning the query", "finding where to resume", "starting the query", "first batch")
    began = [profile[step]["began_s"] for step in steps]
    assert began == sorted(began)
    assert began[0] > 0
    assert "to the end of the first batch" in resumed.stderr
    assert "differs from its checkpoint" not in resumed.stderr
    job.pipeline.require_nothing_wrong()
    assert len(job.pipeline.visible()) > len(published)

    # Equal types, so Spark cannot know; the user says that it is the same key under a new name.
    job.more_input()
    forced = job.run("--force", name="customer")
    assert forced.returncode == 0, forced.stderr
    assert "customer integer" in forced.stderr
    job.pipeline.require_exact()
