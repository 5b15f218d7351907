"""`holdfast.open`: a home read by a program. The sessions of docs/python.md run as they stand there."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from tests.documents import ROOT, blocks
from tests.unit.job_histories import History


@pytest.fixture
def home(tmp_path: Path) -> str:
    """Job `orders`: checkpoints 40 to 42, one of them a savepoint, and a failure; it has ended."""
    history = History(tmp_path / "home")
    history.run()
    history.complete(40, batch=10)
    history.complete(41, batch=20, name="before-v2")
    history.fail(None)
    history.complete(42, batch=30)
    history.end()
    return f"file://{tmp_path / 'home'}"


def test_jobs_and_their_checkpoints_are_objects(home: str) -> None:
    opened = holdfast.open(home)
    assert opened.jobs() == ("orders",)
    job = opened.job("orders")
    assert [each.id for each in job.checkpoints()] == [42, None, 41, 40]
    assert [each.name for each in job.savepoints()] == ["before-v2"]
    assert job.checkpoint("before-v2").id == job.checkpoint(41).id == 41
    assert job.checkpoints()[:2][1].failure is not None
    status = job.status()
    assert (status.running, status.last_completed.id if status.last_completed else None) == (False, 42)


def test_checkpoints_are_tables(home: str) -> None:
    found = holdfast.open(home).job("orders").checkpoints()
    assert found.to_arrow()["batch"].to_pylist() == [30, None, 20, 10]
    assert list(found.to_pandas()["status"]) == ["completed", "failed", "completed", "completed"]


def test_what_is_not_there_is_named(home: str, tmp_path: Path) -> None:
    opened = holdfast.open(home)
    with pytest.raises(holdfast.NotFound, match="one of: orders"):
        opened.job("refunds")
    with pytest.raises(holdfast.NotFound, match="its newest is 42"):
        opened.job("orders").checkpoint(99)
    with pytest.raises(holdfast.NotFound, match="before-v2"):
        opened.job("orders").checkpoint("v3")
    with pytest.raises(holdfast.StorageError, match="absent"):
        holdfast.open(f"file://{tmp_path}/absent")
    with pytest.raises(holdfast.InvalidSettings, match="must be the URL of a home"):
        holdfast.open("")


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_a_missing_library_is_named(home: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    found = holdfast.open(home).job("orders").checkpoints()
    with pytest.raises(holdfast.InvalidSettings, match=f"pip install {missing}"):
        found.to_pandas() if missing == "pandas" else found.to_arrow()


def test_it_needs_no_spark() -> None:
    code = "import holdfast, sys; holdfast.open; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_sessions_of_the_page_run(home: str) -> None:
    text = "\n".join(block.text for block in blocks(ROOT / "docs" / "python.md") if block.text.startswith(">>>"))
    session = text.replace("s3://bucket/holdfast", home)
    test = doctest.DocTestParser().get_doctest(session, {}, "python.md", None, 0)
    assert len(test.examples) > 5
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=said.append)
    assert not said, "".join(said)
