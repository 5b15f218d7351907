"""A work directory and a home in one bucket: large files are copied by the store, and every byte was proved once."""

import uuid
from collections.abc import Iterator

import pytest

from holdfast.checkpoint.layout import ShardPlan
from holdfast.checkpoint.manifest import Manifest, ManifestFile
from holdfast.errors import Corrupt
from holdfast.identifiers import FencingEpoch, JobName
from holdfast.repository.blobs import Blobs
from holdfast.runtime.job_folder import JobFolder
from holdfast.runtime.work_marker import WorkMarker
from holdfast.snapshot.carrier import ShardDeclined, copy_shards
from holdfast.snapshot.copy_task import CopyPlace, CopyTask, run_copy_task
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store
from holdfast.testing.workdirs import content, put
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.restorer import restore
from tests.stores.proxy import Fate, Proxy, Seen, Status, proxy_to
from tests.stores.s3 import S3Server
from tests.unit.work_files import EPOCH, MIB, manifest_of, shards_of

LARGE = "state/0/0/SSTs/large.sst"
CONTENTS = {
    "metadata": b'{"id":"1"}',
    "commits/0": b"v1\n{}",
    "state/0/0/1.changelog": b"small",
    LARGE: bytes(range(256)) * (9 * MIB // 256),
}
REFUSED = b"<Error><Code>%s</Code><Message>no copies here</Message></Error>"
REFUSALS = [
    Status(403, REFUSED % b"AccessDenied"),
    Status(400, REFUSED % b"InvalidRequest"),
    Status(501, REFUSED % b"NotImplemented"),
]
"""The second is the answer of S3 for an object above 5 GiB."""


class Bucket:
    def __init__(self, server: S3Server, proxy: Proxy) -> None:
        name = uuid.uuid4().hex[:12]
        self.proxy = proxy
        self.name = name
        self.server = server
        self.home: ObjectStore = open_store(server.home(f"{name}/home", proxy.endpoint))
        self.root: WorkDirectory = work_directory(server.work(f"{name}/work", proxy.endpoint))
        self.work = self.root.at("1-1")
        put(self.work, CONTENTS)
        proxy.seen.clear()

    def checkpoint(self, home: ObjectStore | None = None) -> Manifest:
        return manifest_of(copy_shards(self.work, shards_of(self.work), Blobs(home or self.home, EPOCH), lambda: False))

    def restored(self, manifest: Manifest, name: str) -> WorkDirectory:
        restore(self.home, manifest, self.root.at(name), inside=True)
        return self.root.at(name)

    def requests(self, method: str, below: str) -> list[Seen]:
        return [seen for seen in self.proxy.seen if seen.method == method and below in seen.path]


@pytest.fixture
def bucket(s3: S3Server) -> Iterator[Bucket]:
    with proxy_to(s3.endpoint) as proxy:
        yield Bucket(s3, proxy)


def is_copy(seen: Seen) -> bool:
    return any(name.lower() == "x-amz-copy-source" for name in seen.headers)


def blob_of(manifest: Manifest) -> ManifestFile:
    (file,) = (file for file in manifest.files() if file.path == LARGE)
    return file


def test_large_files_are_copied_by_the_store_both_ways(bucket: Bucket) -> None:
    manifest = bucket.checkpoint()
    assert blob_of(manifest).version
    assert [is_copy(seen) for seen in bucket.requests("PUT", "/blobs/")] == [True, True], "first where nobody looks"
    assert bucket.home.get(blob_of(manifest).key) == CONTENTS[LARGE]
    assert [item.key for item in bucket.home.list("blobs/")] == [blob_of(manifest).key]

    bucket.proxy.seen.clear()
    restored = bucket.restored(manifest, "2-1")
    assert bucket.requests("GET", "/blobs/") == [], "no byte of it comes here"
    assert [is_copy(seen) for seen in bucket.requests("PUT", LARGE)] == [True]
    assert [seen.path for seen in bucket.proxy.seen if seen.method == "PUT"][-1].endswith("/2-1/metadata")
    assert content(restored) == CONTENTS


def test_what_was_replaced_while_it_was_copied_declines(bucket: Bucket) -> None:
    def replace_it(seen: Seen) -> Fate:
        if is_copy(seen):
            bucket.proxy.judge = lambda seen: Fate.PASS
            bucket.work.write_atomic(LARGE, CONTENTS[LARGE][::-1])
        return Fate.PASS

    bucket.proxy.judge = replace_it
    with pytest.raises(ShardDeclined, match="was replaced after it was planned"):
        bucket.checkpoint()
    assert [seen.method for seen in bucket.requests("PUT", "/blobs/")] == ["PUT"]
    assert list(bucket.home.list("blobs/")) == [], "nothing wrong stays under the name of the digest"


def shard_with(bucket: Bucket, path: str) -> ShardPlan:
    """With that file only."""
    (shard,) = (shard for shard in shards_of(bucket.work) if any(file.path == path for file in shard.files))
    return ShardPlan(shard.shard, tuple(file for file in shard.files if file.path == path))


@pytest.mark.parametrize("goes", [True, False], ids=["goes", "is replaced"])
def test_a_file_that_goes_while_it_is_copied_takes_nothing_from_its_twin(bucket: Bucket, goes: bool) -> None:
    """Two copies at once of equal bytes, to one key: what the other one has proved stays there."""
    twin = f"{LARGE}.twin"
    put(bucket.work, {twin: CONTENTS[LARGE]})
    large, other = shard_with(bucket, LARGE), shard_with(bucket, twin)
    held: list[ManifestFile] = []

    def while_it_is_copied(seen: Seen) -> Fate:
        if is_copy(seen):
            bucket.proxy.judge = before_it_is_compared
        return Fate.PASS

    def before_it_is_compared(seen: Seen) -> Fate:
        bucket.proxy.judge = lambda seen: Fate.PASS
        (copy,) = copy_shards(bucket.work, [large], Blobs(bucket.home, EPOCH), lambda: False)
        held.extend(copy.files)
        if goes:
            bucket.work.remove(twin)
        else:
            bucket.work.write_atomic(twin, CONTENTS[LARGE][::-1])
        return Fate.PASS

    bucket.proxy.judge = while_it_is_copied
    with pytest.raises(ShardDeclined):
        copy_shards(bucket.work, [other], Blobs(bucket.home, EPOCH), lambda: False)
    (file,) = held
    assert bucket.home.get(file.key) == CONTENTS[LARGE]
    assert [(item.key, item.version) for item in bucket.home.list("blobs/")] == [(file.key, file.version)]


def test_an_executor_leaves_alone_what_a_checkpoint_has(bucket: Bucket) -> None:
    """It knows little of what the home holds, and a file that goes while it is copied tells nothing of that."""
    held = blob_of(bucket.checkpoint())
    twin = f"{LARGE}.twin"
    put(bucket.work, {twin: CONTENTS[LARGE]})
    plan = shard_with(bucket, twin)

    def remove_it(seen: Seen) -> Fate:
        if is_copy(seen):
            bucket.proxy.judge = remove_after
        return Fate.PASS

    def remove_after(seen: Seen) -> Fate:
        bucket.proxy.judge = lambda seen: Fate.PASS
        bucket.work.remove(twin)
        return Fate.PASS

    place = CopyPlace(
        bucket.server.home(bucket.name, bucket.proxy.endpoint),
        "home",
        60.0,
        held.key,
        held.digest,
        bucket.work,
        bucket.work.identity(),
    )
    bucket.proxy.judge = remove_it
    report = run_copy_task(CopyTask(place, EPOCH, (plan,), (), frozenset()))
    assert bucket.home.get(held.key) == CONTENTS[LARGE]
    assert report.failure is None
    assert [(file.path, file.key) for file in report.found] == [(twin, held.key)]


def test_an_object_of_another_version_is_read_and_so_is_every_one_the_second_time(bucket: Bucket) -> None:
    """Damage that the store notes is found at once. Damage below the store is found when Spark reads it; the
    directory is then set aside, and the same checkpoint is restored again."""
    manifest = bucket.checkpoint()
    blob = blob_of(manifest)
    folder = JobFolder(bucket.root, WorkMarker(job=JobName("orders"), home="home", lineage="1"))
    folder.restore(bucket.home, manifest, FencingEpoch(2))
    assert bucket.requests("GET", "/blobs/") == []
    again = folder.restore(bucket.home, manifest, FencingEpoch(2))
    assert len(bucket.requests("GET", "/blobs/")) == 1
    assert content(again.files) == CONTENTS

    damaged = CONTENTS[LARGE][:-1] + b"?"
    bucket.home.put(blob.key, damaged)
    with pytest.raises(Corrupt, match="found"):
        bucket.restored(manifest, "3-1")
    assert not bucket.root.exists("3-1")
    bucket.home.delete(blob.key)
    with pytest.raises(Corrupt, match="missing"):
        bucket.restored(manifest, "3-1")


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal.code))
def test_a_store_that_does_not_copy_is_sent_the_bytes(bucket: Bucket, refusal: Status) -> None:
    bucket.proxy.judge = lambda seen: refusal if is_copy(seen) else Fate.PASS
    manifest = bucket.checkpoint()
    assert not blob_of(manifest).version
    assert bucket.home.get(blob_of(manifest).key) == CONTENTS[LARGE]
    bucket.proxy.seen.clear()
    assert content(bucket.restored(manifest, "2-1")) == CONTENTS
    assert not any(is_copy(seen) for seen in bucket.proxy.seen)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal.code))
def test_a_restore_that_cannot_copy_reads(bucket: Bucket, refusal: Status) -> None:
    manifest = bucket.checkpoint()
    bucket.proxy.judge = lambda seen: refusal if is_copy(seen) else Fate.PASS
    assert content(bucket.restored(manifest, "2-1")) == CONTENTS


def test_another_bucket_is_read_once_and_sent(bucket: Bucket) -> None:
    """The endpoint is another: whether it is the same server cannot be known."""
    elsewhere = open_store(bucket.server.home(bucket.name))
    manifest = bucket.checkpoint(elsewhere)
    assert not blob_of(manifest).version
    assert len(bucket.requests("GET", LARGE)) == 1
    assert elsewhere.get(blob_of(manifest).key) == CONTENTS[LARGE]
