"""The benchmark's arithmetic. What it measures is not tested: a test that depends on time says nothing."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from bench import processor
from bench.home_bytes import Step, steps
from bench.planned import Lived
from bench.planned import ratios as plan_ratios
from bench.ratio import Ratio, quantile
from bench.recovery import Recoveries
from bench.recovery import ratios as recovery_ratios
from bench.replay import Replay
from bench.replay import ratios as replay_ratios
from bench.restore import measure
from bench.rounds import order_of
from bench.s3_requests import Counted, kind_of, ratios
from bench.state_files import StateFiles
from holdfast.checkpoint.manifest import Manifest, ManifestFile, ManifestShard
from holdfast.identifiers import BatchId, CheckpointId, Digest, FencingEpoch, ShardId
from tests.stores.proxy import Seen


@pytest.mark.parametrize(
    ("value", "more_is_better", "met"),
    [(0.97, True, True), (0.969, True, False), (0.97, False, True), (0.971, False, False)],
)
def test_a_loss_is_shown_as_a_loss(value: float, more_is_better: bool, met: bool) -> None:
    assert Ratio("batches", value, more_is_better, expected=0.97).met is met


def test_without_a_promise_or_on_a_busy_machine_there_is_no_verdict() -> None:
    assert Ratio("restore", 0.5, more_is_better=True).met is None
    assert Ratio("batches", 2.0, more_is_better=True, expected=0.97, disturbed=True).met is None


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert [quantile([4.0, 1.0, 3.0, 2.0], share) for share in (0.0, 0.5, 0.75, 0.99)] == [1.0, 2.0, 3.0, 4.0]


def test_neither_variant_always_goes_first() -> None:
    assert order_of(0, with_file_sink=False) == ("plain", "holdfast", "tuned")
    assert order_of(1, with_file_sink=True) == ("holdfast", "tuned", "plain", "file-sink")


def test_changed_bytes_count_equal_content_once_and_written_bytes_count_whole_objects() -> None:
    kept = _file("kept", 100, "a")
    packed, again = (_file(name, 10, "b", pack="p", offset=0) for name in ("new", "same content"))
    other = _file("other", 5, "c", pack="p", offset=10)
    stored = {kept.key: 100, packed.key: 20}
    manifests = [_manifest(kept), _manifest(kept, packed, again, other), _manifest(kept, packed)]
    assert steps(manifests, [7, 8, 9], stored) == [Step(15, 20, 8), Step(0, 0, 9)]


def test_every_way_to_restore_is_measured_once_per_round_after_the_warm_up(tmp_path: Path) -> None:
    told: list[str] = []
    measured = measure(tmp_path, megabytes=9, rounds=1, tell=told.append)
    assert measured.files == 2 + 9
    assert len(measured.holdfast) == len(measured.copied) == len(measured.copied_durably) == 1


def test_one_percent_of_the_state_changes_and_nothing_is_changed_in_place(tmp_path: Path) -> None:
    state = StateFiles(tmp_path / "state", 32 << 20)
    before = {file for shard in state.shards() for file in shard.files}
    state.change_one_percent()
    after = {file for shard in state.shards() for file in shard.files}
    total = sum(file.size for file in after)
    assert 0.01 <= sum(file.size for file in after - before) / total < 0.02
    assert {file.path for file in after - before}.isdisjoint(file.path for file in before)


@pytest.mark.parametrize(
    ("method", "path", "headers", "kind"),
    [
        ("PUT", "/bucket/key", {}, "put"),
        ("PUT", "/bucket/key", {"X-Amz-Copy-Source": "/bucket/other"}, "copy"),
        ("POST", "/bucket/key?uploads", {}, "post"),
        ("GET", "/bucket?list-type=2&prefix=a%2Fb", {}, "list"),
        ("GET", "/bucket/?prefix=a", {}, "list"),
        ("GET", "/bucket/key", {}, "get"),
        ("HEAD", "/bucket/key", {}, "head"),
        ("DELETE", "/bucket/key", {}, "delete"),
    ],
)
def test_requests_are_counted_as_s3_charges_them(method: str, path: str, headers: dict[str, str], kind: str) -> None:
    assert kind_of(Seen(method, path, headers)) == kind


def test_requests_are_compared_for_the_same_batches_and_for_one_checkpoint() -> None:
    plain = Counted("plain", batches=10, checkpoints=10, requests={"put": 100, "copy": 100, "list": 50})
    holdfast = Counted("holdfast", batches=10, checkpoints=2, requests={"put": 8, "get": 3}, heartbeats=2)
    inside = Counted("inside", batches=10, checkpoints=2, requests={"put": 30, "list": 5, "head": 5})
    same, each, lists, every, checkpoint = ratios(plain, holdfast, inside)
    assert (same.value, each.value, lists.value) == (8 / 200, 3 / 20, 0)
    assert same.met
    assert (every.value, checkpoint.value) == (40 / 250, 20 / 25)
    assert not every.met


def test_own_processor_time_contains_the_children_and_never_exceeds_the_machine() -> None:
    begun = processor.now()
    sum(range(2_000_000))
    ended = processor.now()
    assert 0 <= processor.own_between(begun, ended) <= os.times().user + os.times().system
    assert processor.others_between(begun, ended) >= 0


def _file(path: str, size: int, digest: str, pack: str | None = None, offset: int = 0) -> ManifestFile:
    return ManifestFile(path, size, Digest(digest * 64), FencingEpoch(1), Digest(pack * 64) if pack else None, offset)


def _manifest(*files: ManifestFile) -> Manifest:
    return Manifest(1, "job", CheckpointId(1), BatchId(1), FencingEpoch(1), (ManifestShard(ShardId("s"), files),))


def test_a_recovery_is_compared_with_plain_sparks_of_the_same_state() -> None:
    seconds = {"plain": (10.0, 9.0, 30.0), "tuned": (5.5,), "local": (10.5, 11.0, 12.0), "home": (20.0,)}
    small = Recoveries(100 << 20, seconds, others=0.1)
    local, tuned, home = recovery_ratios([small])
    assert (tuned.value, tuned.met) == (pytest.approx(2.0), None)
    assert (local.value, local.met) == (pytest.approx(1.1), True)
    assert (home.value, home.met) == (pytest.approx(2.0), None)
    busy = dataclasses.replace(small, others=1.0)
    assert all(ratio.disturbed for ratio in recovery_ratios([busy]))


def test_plans_that_cost_a_tenth_of_a_batch_are_no_kept_promise() -> None:
    def lived(home: Any, seconds: float, *, plans: bool) -> Lived:
        return Lived(home, plans, (seconds, seconds), requests=6 if plans else 0, others=0.0)

    lives = [lived("disk", 1.0, plans=False), lived("disk", 1.0, plans=True)]
    lives += [lived("s3", 0.9, plans=False), lived("s3", 1.0, plans=True)]
    disk, s3 = plan_ratios(lives)
    assert (disk.met, s3.met, s3.value) == (True, False, 0.9)


def test_a_recovery_over_its_target_is_no_kept_promise() -> None:
    replay = Replay(10, 2.0, 15, 10.0, 20.0, 20, 30.0, 45.0, others=0.0)
    speed, within = replay_ratios([replay])
    assert (speed.value, speed.met) == (0.75, None)
    assert (within.value, within.met) == (0.75, True)
    (_, late) = replay_ratios([dataclasses.replace(replay, within_s=61.0)])
    assert late.met is False
