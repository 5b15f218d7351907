"""Who copies, how fast, and from which work directory: what is chosen, and what is refused."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import py4j
import pyspark
import pytest
from pyspark import cloudpickle

from holdfast.errors import InvalidSettings
from holdfast.settings import Settings
from holdfast.spark.carrying import is_cluster
from holdfast.spark.failures import one_line
from holdfast.spark.visiting import Visit, _visitor, require_seen, unable_to_copy
from holdfast.workdir.factory import work_directory

WELL = Visit("one", 1, None, None)


@pytest.mark.parametrize(
    ("master", "cluster"),
    [
        ("local", False),
        ("local[*]", False),
        ("local[2, 4]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://a:7077,b:7077", True),
        ("yarn", True),
        ("k8s://https://host:443", True),
    ],
)
def test_a_cluster_is_told_by_its_master(master: str, cluster: bool) -> None:
    assert is_cluster(master) is cluster


@pytest.mark.parametrize(
    ("given", "rate"),
    [(None, None), ("100MB/s", 1e8), ("1.5 GiB/s", 1.5 * (1 << 30)), ("64KB/s", 64e3), ("1B/s", 1.0)],
)
def test_a_bandwidth_is_bytes_per_second(given: str | None, rate: float | None) -> None:
    assert Settings(bandwidth=given).bytes_per_second == rate


@pytest.mark.parametrize("given", ["100", "100MB", "0MB/s", "fast", "-1MB/s", 100])
def test_another_bandwidth_is_refused(given: object) -> None:
    with pytest.raises(InvalidSettings, match=r"bandwidth=.* must be a rate such as '100MB/s'"):
        Settings(bandwidth=given)  # type: ignore[arg-type]


def test_another_carrier_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="carrier='pigeon' is not valid: must be one of auto, driver, executors"):
        Settings(carrier="pigeon")  # type: ignore[arg-type]


def test_a_work_directory_is_a_path_here(tmp_path: Path) -> None:
    assert work_directory(tmp_path).mounted_at == tmp_path
    assert work_directory("work").mounted_at == Path("work").absolute()
    assert work_directory(f"file://{tmp_path}/a%20b").mounted_at == tmp_path / "a b"


@pytest.mark.parametrize("given", ["gs://bucket/work", "file://host/work"])
def test_a_work_directory_elsewhere_is_refused(given: str) -> None:
    with pytest.raises(InvalidSettings, match="must be a path, or file:///path") as raised:
        work_directory(given)
    assert "at the same path" in (raised.value.hint or "")


def test_a_work_directory_on_hdfs_is_known_by_its_url() -> None:
    for given in ("hdfs://name:8020/work", "hdfs://name:8020/work/", "hdfs://name:8020//work"):
        work = work_directory(given)
        assert (work.scheme, work.mounted_at) == ("hdfs", None)
        assert work.location == "hdfs://name:8020/work"
        assert work_directory(work.at("orders").location).location == "hdfs://name:8020/work/orders"


@pytest.mark.parametrize("given", ["hdfs://me:secret@name:8020/w", "hdfs://name:8020/w?user=me", "hdfs:///w"])
def test_a_url_of_hdfs_holds_no_user_and_no_options(given: str) -> None:
    with pytest.raises(InvalidSettings, match="without user and options") as raised:
        work_directory(given)
    assert "secret" not in str(raised.value)


def test_executors_that_do_not_see_the_work_directory_are_named(tmp_path: Path) -> None:
    gone = "No such file or directory"
    visits = [WELL, Visit("two", 2, gone, None), Visit("two", 3, gone, None), Visit("three", 4, "it is another", None)]
    with pytest.raises(InvalidSettings) as raised:
        require_seen(visits, work_directory(tmp_path))
    assert f"work='{tmp_path}' is not valid: executors on three, two do not see it" in raised.value.message
    assert f"({gone}; it is another)" in raised.value.message
    assert "--work" in (raised.value.hint or "")
    require_seen([WELL], work_directory(tmp_path))
    require_seen([], work_directory(tmp_path))


def test_executors_that_cannot_load_holdfast_are_named() -> None:
    assert unable_to_copy([WELL]) is None
    missing = Visit("two", 2, None, "ModuleNotFoundError: No module named 'holdfast'")
    assert unable_to_copy([WELL, missing]) == (
        "executors on two cannot load holdfast (ModuleNotFoundError: No module named 'holdfast')"
    )
    assert unable_to_copy([]) == "no executor answered within 60 s"


def test_the_visit_needs_no_holdfast_where_it_goes(tmp_path: Path) -> None:
    """As on an executor that has PySpark and nothing else."""
    token = tmp_path / "token"
    token.touch()
    sent = [_visitor(str(token), token.stat().st_ino), _visitor(str(token), 0), _visitor("/no/such/token", 0)]
    program = "import pickle, sys; print([v(0)[2:] for v in pickle.loads(__import__('base64').b64decode(sys.argv[1]))])"
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in (pyspark, py4j):
        (packages / package.__name__).symlink_to(Path(package.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, base64.b64encode(cloudpickle.dumps(sent)).decode()],
        env={**os.environ, "PYTHONPATH": str(packages)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    missing = "ModuleNotFoundError: No module named 'holdfast'"
    assert done.stdout.strip() == str(
        [(None, missing), ("the path is another directory there", missing), ("No such file or directory", missing)]
    )


def test_of_two_tracebacks_the_line_that_matters_is_shown() -> None:
    text = """An error occurred while calling o61.get.
: java.util.concurrent.ExecutionException: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0
Lost task 0.3 in stage 3.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
ModuleNotFoundError: No module named 'blake3'

\tat org.apache.spark.api.python.BasePythonRunner(PythonRunner.scala:581)
"""
    assert one_line(RuntimeError(text)) == "ModuleNotFoundError: No module named 'blake3'"
    assert one_line(RuntimeError("\n\nCall to the JVM failed\nmore")) == "Call to the JVM failed"
    assert one_line(RuntimeError()) == "RuntimeError"
