"""The doctor on a standalone cluster (a master, two workers, executors in processes of their own): the same answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pyspark
import pytest

from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.examination import added_up
from holdfast.doctor.matching.scanning import scan
from holdfast.doctor.reading.inputs import pieces_of, resolve
from tests import short_lived_jvm
from tests.patience import PATIENCE

LOGS = Path(__file__).parents[1] / "doctor" / "real" / "logs"

EXAMINE = """
import os, sys
from pyspark.sql import SparkSession
from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.reading.inputs import resolve
from holdfast.doctor.spark.pipeline import examine
from holdfast.doctor.findings.rules import RULES
import json, msgspec
builder = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.executor.memory", "512m")
spark = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").getOrCreate()
found = examine(spark, resolve([sys.argv[1]]), RULES, size=50_000)
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
findings = msgspec.to_builtins(diagnose(found.sightings))
sys.stdout.write(json.dumps([found.files, found.lines, found.events, found.unparsed, executors, findings]))
spark.stop()
"""


@pytest.mark.long
def test_the_same_answer_on_a_cluster(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JDK_JAVA_OPTIONS": short_lived_jvm.options(),
    }
    command = [sys.executable, "-c", EXAMINE, str(LOGS)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    files, lines, events, unparsed, executors, findings = json.loads(done.stdout.splitlines()[-1])
    alone = added_up(scan(piece, RULES) for piece in pieces_of(resolve([str(LOGS)]).files))
    assert (files, lines, events, unparsed) == (alone.files, alone.lines, alone.events, alone.unparsed)
    assert executors == 2
    assert findings == json.loads(msgspec.json.encode(diagnose(alone.sightings)))
