"""A shard that is much larger than the others is copied by several groups, and is one shard again at the end."""

from pathlib import Path

from holdfast.checkpoint.layout import ShardPlan, WorkFile
from holdfast.identifiers import ShardId
from holdfast.repository.blobs import Blobs
from holdfast.runtime.checkpoints.parts import Parts
from holdfast.snapshot.carrier import ShardCopy, copy_shards, grouped
from holdfast.workdir.factory import work_directory
from tests.unit.work_files import EPOCH, MIB, copied, new_store, shards, write

LARGE = {f"big/{number}": bytes([number]) * (8 * MIB) for number in range(8)}
SMALL = {f"{shard}/{number}": f"{shard}{number}".encode() for shard in ("big", "s1", "s2", "s3") for number in "xy"}


def plan(name: str, *sizes: int) -> ShardPlan:
    return ShardPlan(ShardId(name), tuple(WorkFile(f"{name}/{n}", size, "0") for n, size in enumerate(sizes)))


def test_a_shard_above_its_share_is_divided_by_its_large_files() -> None:
    big, rest = plan("big", *([64 * MIB] * 6), 10, 20), [plan(f"s{n}", 1000) for n in range(3)]
    groups = grouped([big, *rest], 4)
    assert groups == grouped([*reversed(rest), big], 4)
    sizes = sorted(sum(shard.size for shard in group) for group in groups)
    assert sizes[-1] <= 2 * 64 * MIB + 4000
    files = [file.path for group in groups for shard in group for file in shard.files]
    assert sorted(files) == sorted(file.path for shard in [big, *rest] for file in shard.files), "each once"
    assert all(len({shard.shard for shard in group}) == len(group) for group in groups)
    known = {file.path for file in big.files[:5]}
    (group,) = grouped([plan("big", *([64 * MIB] * 5), MIB), *rest], 4, lambda file: file.path not in known)
    assert len(group) == 4, "what is known costs nothing, and is not divided"


def test_the_parts_are_the_shard_as_if_one_had_copied_it(tmp_path: Path) -> None:
    work = tmp_path / "work"
    write(work, LARGE | SMALL)
    whole = {copy.shard: copy for copy in copied(work, Blobs(new_store(tmp_path / "one"), EPOCH))}
    plans, blobs = shards(work), Blobs(new_store(tmp_path / "several"), EPOCH)
    groups = grouped(plans, 4, blobs.is_new)
    assert sum(any(shard.shard == "big" for shard in group) for group in groups) == 4
    parts, found = Parts(plans, groups), dict[ShardId, ShardCopy]()
    for number, group in enumerate(groups, 1):
        for copy in copy_shards(work_directory(work), group, blobs, lambda: False):
            if (complete := parts.add(copy)) is not None:
                found[copy.shard] = complete
        assert ("big" in found) == (number == 4), "not before its last part"
    assert found.keys() == whole.keys()
    for shard, copy in whole.items():
        assert [(file.path, file.digest) for file in found[shard].files] == [(f.path, f.digest) for f in copy.files]
        assert found[shard].bytes_new == copy.bytes_new
    assert found[ShardId("big")].objects_written >= len(LARGE)


def test_the_first_part_that_fails_fails_the_shard_and_what_comes_later_is_forgotten() -> None:
    big, small = plan("big", *([64 * MIB] * 3)), plan("s1", 10)
    groups = grouped([big, small], 3)
    parts = Parts([big, small], groups)
    assert parts.add(ShardCopy(ShardId("big"), (), 1, 1)) is None
    assert parts.fail([ShardId("big"), ShardId("s1")]) == ("big", "s1")
    assert parts.fail([ShardId("big")]) == ()
    assert parts.add(ShardCopy(ShardId("big"), (), 1, 1)) is None
    assert parts.add(ShardCopy(ShardId("big"), (), 1, 1)) is None
    again = Parts([big], [[big]])
    copy = ShardCopy(ShardId("big"), (), 1, 1)
    assert again.add(copy) is copy
