"""Home, work directory and sink must not contain one another."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.runtime.run.places import require_apart
from tests.trust.jobs_with_sinks import job as job


@pytest.mark.parametrize(
    ("home", "work", "sink"),
    [
        ("file:///data/t/home", "/work", "delta:/data/t"),
        ("file:///data", "/work", "files:/data/out"),
        ("file:///data/home", "/data/home", None),
        ("file:///data/home", "/data/home/work", None),
        ("file:///work/orders", "/work", None),
        ("file:///home", "/data/t/work", "delta:/data/t"),
        ("hdfs://nn:8020/a", "hdfs://nn:8020/a/work", None),
        ("hdfs://nn/a", "hdfs://nn:8020/a/work", None),
        ("hdfs://nn:8020/a", "hdfs://NN/a/work", None),
        ("s3://bucket/x", "/work", "delta:s3a://bucket/x/table"),
        ("s3://bucket", "/work", "delta:s3://bucket/table"),
        ("file:///data/%68ome", "/data/home/x", None),
        ("file:///data/other/../home", "/data/home/x", None),
    ],
)
def test_places_that_lie_in_one_another_are_refused(home: str, work: str, sink: str | None) -> None:
    with pytest.raises(InvalidSettings, match="lies in"):
        require_apart(home, work, sink)


@pytest.mark.parametrize(
    ("home", "work", "sink"),
    [
        ("file:///data/home", "/data/work", "delta:/data/table"),
        ("file:///data/home", "/data/home2", None),
        ("hdfs://one:8020/a", "hdfs://two:8020/a/b", None),
        ("hdfs://one:8020/a", "/a/b", None),
        ("hdfs://one/a", "hdfs://one:9000/a/b", None),
        ("s3://bucket/x", "/work", "delta:s3://bucket/y"),
        ("s3://one/x", "/work", "delta:s3://two/x/y"),
        ("file:///data/home", "/work", "a sink of somebody's own"),
    ],
)
def test_places_side_by_side_are_fine(home: str, work: str, sink: str | None) -> None:
    require_apart(home, work, sink)


def test_a_symbolic_link_does_not_hide_it(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    with pytest.raises(InvalidSettings, match="lies in"):
        require_apart(f"file://{tmp_path}/home", f"{tmp_path}/link/work", None)
