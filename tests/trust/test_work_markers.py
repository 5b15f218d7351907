"""The marker of a work directory is a claim on the place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import Conflict, InvalidSettings, StorageError
from holdfast.identifiers import AttemptId, FencingEpoch, JobName, Sequence
from holdfast.repository.ownership import current_process
from holdfast.runtime import work_marker
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.work_marker import NAME, WorkMarker, read_marker, remember_head, take_place
from holdfast.workdir.factory import work_directory
from tests.trust.jobs_with_sinks import job as job

MARKER = WorkMarker(
    job=JobName("orders"),
    home="file:///home",
    lineage="lineage",
    home_id="h1",
    epoch=FencingEpoch(4),
    claim=AttemptId("a"),
    head=Sequence(4),
)


def changed(**fields: Any) -> WorkMarker:
    return msgspec.structs.replace(MARKER, **fields)


def test_of_two_homes_that_both_found_the_place_free_one_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is created where there is none: who comes second finds the first one's, and changes nothing."""
    looks: Iterator[WorkMarker | None] = iter([None])
    monkeypatch.setattr(work_marker, "read_marker", lambda root: next(looks, MARKER))
    root = tmp_path / "orders"
    root.mkdir()
    (root / NAME).write_bytes(msgspec.json.encode(MARKER))
    with pytest.raises(Conflict, match="is the work directory of job 'orders' of file:///home"):
        take_place(
            work_directory(tmp_path), changed(home="file:///other", home_id="h2", lineage="other"), new_life=False
        )
    assert [path.name for path in root.iterdir()] == [NAME]
    assert (root / NAME).read_bytes() == msgspec.json.encode(MARKER)


def test_two_homes_with_one_place_and_one_job_name(tmp_path: Path) -> None:
    """The second is refused, and the first one's directory stays where it is."""
    JobFolder(work_directory(tmp_path), MARKER).fresh(FencingEpoch(4))
    other = changed(home="file:///other", home_id="h2", lineage="other")
    with pytest.raises(Conflict, match="is the work directory of job 'orders' of file:///home"):
        JobFolder(work_directory(tmp_path), other)
    assert (tmp_path / "orders" / "4-1").is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["orders"]


def test_another_lineage_of_the_same_home_takes_nothing_over_by_itself(tmp_path: Path) -> None:
    JobFolder(work_directory(tmp_path), MARKER).fresh(FencingEpoch(4))
    with pytest.raises(Conflict):
        JobFolder(work_directory(tmp_path), changed(lineage="another"))
    JobFolder(work_directory(tmp_path), changed(lineage="another"), new_life=True)
    assert (tmp_path / "orders.stale-lineage" / "4-1").is_dir(), "set aside, not removed"
    assert read_marker(work_directory(tmp_path / "orders")) == changed(lineage="another")


def test_a_directory_is_not_taken_from_under_a_living_process(tmp_path: Path) -> None:
    here = current_process()
    take_place(work_directory(tmp_path), changed(process=here), new_life=False)
    other = changed(lineage="another", process=msgspec.structs.replace(here, pid=1, started_ticks=1))
    with pytest.raises(Conflict, match=f"process {here.pid} on this host works there"):
        take_place(work_directory(tmp_path), other, new_life=True)


def test_a_home_that_was_mounted_elsewhere_is_the_same_home(tmp_path: Path) -> None:
    take_place(work_directory(tmp_path), MARKER, new_life=False)
    take_place(work_directory(tmp_path), changed(home="file:///mnt/other", epoch=FencingEpoch(5)), new_life=False)
    with pytest.raises(Conflict):
        take_place(work_directory(tmp_path), changed(home="file:///third", home_id="h2"), new_life=False)


def test_a_home_whose_identity_was_lost_and_made_anew_goes_on(tmp_path: Path) -> None:
    take_place(work_directory(tmp_path), MARKER, new_life=False)
    take_place(work_directory(tmp_path), changed(home_id="h2", epoch=FencingEpoch(5)), new_life=False)
    assert read_marker(work_directory(tmp_path / "orders")) == changed(home_id="h2", epoch=FencingEpoch(5))


def test_what_was_set_aside_once_is_not_overwritten(tmp_path: Path) -> None:
    for lineage in ("lineage", "other", "lineage", "other"):
        take_place(work_directory(tmp_path), changed(lineage=lineage), new_life=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "orders",
        "orders.stale-lineage",
        "orders.stale-lineage-2",
        "orders.stale-other",
    ]


def test_a_marker_of_the_first_version_is_understood(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / NAME).write_text('{"job":"orders","home":"file:///home","lineage":"lineage"}')
    take_place(work_directory(tmp_path), MARKER, new_life=False)
    assert read_marker(work_directory(tmp_path / "orders")) == MARKER


def test_a_marker_that_cannot_be_read_is_somebodys_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "orders" / NAME).mkdir(parents=True)
    with pytest.raises(StorageError):
        take_place(work_directory(tmp_path), MARKER, new_life=False)
    (tmp_path / "orders" / NAME).rmdir()
    (tmp_path / "orders" / NAME).write_text("{")
    with pytest.raises(InvalidSettings, match="is damaged"):
        take_place(work_directory(tmp_path), MARKER, new_life=False)


def test_what_a_run_has_seen_of_the_journal_is_remembered_but_not_by_one_that_was_taken_over(tmp_path: Path) -> None:
    root = tmp_path / "orders"
    take_place(work_directory(root.parent), MARKER, new_life=False)
    remember_head(work_directory(root), MARKER, Sequence(9))
    assert read_marker(work_directory(root)) == changed(head=Sequence(9))
    newer = changed(epoch=FencingEpoch(11), claim=AttemptId("b"), head=Sequence(11))
    take_place(work_directory(root.parent), newer, new_life=False)
    remember_head(work_directory(root), MARKER, Sequence(99))
    assert read_marker(work_directory(root)) == newer
