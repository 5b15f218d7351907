"""A run falls back to an older checkpoint because the newest is damaged: what it holds is not referred to again."""

import os
from pathlib import Path

import pytest

from holdfast.repository.verification import verify
from tests.unit.churning_runs import ChurningRun, ManualClock, manifest_of, state_of


def test_the_same_bytes_are_uploaded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    home = tmp_path / "home"
    home.mkdir()
    run = ChurningRun(home, tmp_path / "work", ManualClock(), retained=5)
    run.batches(3)
    before_the_last = run.query._random.getstate()
    run.batches(1)
    newest, older = state_of(home).restorable()[:2]
    shared = {file.key for file in manifest_of(home, older).files()}
    for key in {file.key for file in manifest_of(home, newest).files()} - shared:
        (home / "churn" / key).write_bytes(b"damaged")

    run.query.die("Bad table magic number")
    run.wait(5)
    assert newest.id in state_of(home).passed_over
    run.query._random.setstate(before_the_last)
    run.batches(1)

    again = state_of(home).restorable()[0]
    assert again.barrier_batch_id == newest.barrier_batch_id
    assert verify(run.store, again.id, again.manifest).corrupt == ()
