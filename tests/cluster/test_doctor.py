"""`holdfast doctor` on a standalone cluster, a master and two workers: the answer is the one of a single process.

Too slow for CI, where a cluster in one JVM stands in (`tests/end_to_end/test_doctor_on_a_cluster.py`).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from bench import generated_logs
from holdfast.doctor.diagnosis.diagnosing import diagnose
from holdfast.doctor.findings.rules import RULES
from holdfast.doctor.matching.examination import added_up
from holdfast.doctor.matching.scanning import scan
from holdfast.doctor.reading.inputs import pieces_of, resolve
from holdfast.storage.hdfs import HdfsStore
from holdfast.storage.hdfs_connection import HdfsConnection
from tests.cluster.standalone import Cluster, standalone_cluster
from tests.end_to_end.harness import TORTURE
from tests.patience import PATIENCE
from tests.stores.hdfs_server import running_hdfs

REAL = Path(__file__).parents[1] / "doctor" / "real" / "logs"
MEGABYTES = 16
"""So much that both workers get several pieces of it."""

if TORTURE:

    def test_the_same_answer_on_a_cluster_from_files_and_from_hdfs(tmp_path: Path) -> None:
        logs = tmp_path / "logs"
        shutil.copytree(REAL, logs)
        generated_logs.write(logs / "generated", MEGABYTES, jobs=3)
        alone = added_up(scan(piece, RULES) for piece in pieces_of(resolve([str(logs)]).files))
        expected = json.loads(msgspec.json.encode(diagnose(alone.sightings)))
        with standalone_cluster(tmp_path) as cluster, running_hdfs(tmp_path / "hdfs") as server:
            cluster.add_worker()
            cluster.add_worker()
            store = HdfsStore(HdfsConnection(server.address, metadata_patience=60, data_patience=60), "/")
            for path in resolve([str(logs)]).files:
                store.put(f"logs/{Path(path).relative_to(logs)}", Path(path).read_bytes())
            from_files = doctor(cluster, str(logs), tmp_path)
            from_hdfs = doctor(cluster, f"{server.address}/logs", tmp_path)
            assert all(worker.wait_for("Asked to launch executor") for worker in cluster.workers)
        assert from_files["findings"] == expected
        assert moved(from_hdfs["findings"], f"{server.address}/logs", str(logs)) == expected
        for report in (from_files, from_hdfs):
            read = report["logs"]
            assert (read["files"], read["lines"], read["events"]) == (alone.files, alone.lines, alone.events)


def doctor(cluster: Cluster, logs: str, place: Path) -> Any:
    command = [sys.executable, "-m", "holdfast.cli", "doctor", logs, "--master", cluster.url, "--json"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1, done.stderr[-2000:]
    return json.loads(done.stdout)


def moved(findings: Any, url: str, directory: str) -> Any:
    return json.loads(json.dumps(findings).replace(url, directory))
