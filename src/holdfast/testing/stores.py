"""The conformance suite for stores: a store that passes can hold a home.

Subclass it in a test module:

    class TestMyStore(StoreConformance):
        @pytest.fixture(autouse=True)
        def place(self, tmp_path):
            self.path = tmp_path

        def make_store(self):
            return MyStore(self.path)

Every test works below its own name, so that all can share one bucket. No key of holdfast is a folder of another key, so
no test does that.

For a store on a file system, subclass `LinkConformance` and override `plant_link`, too.

`FaultyStore(store, Faults(...), seed)` makes any store fail on purpose.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest

from holdfast.errors import InvalidKey, ObjectNotFound, StorageError, StorageUnreachable
from holdfast.storage.faulty import Faults, FaultyStore
from holdfast.storage.home_identity import ensure_home_identity, read_home_identity
from holdfast.storage.interface import Created, ObjectStore, StoredAt
from holdfast.storage.retrying import Patience, RetryingStore
from holdfast.storage.urls import require_create_if_absent

__all__ = ["Faults", "FaultyStore", "StoreConformance"]

T = TypeVar("T")

WRITERS = 32
ROUNDS = 5
MANY = 1100
"""More than one page of any listing."""
LARGE = (69 << 20) + 7
"""More than any store writes with one request."""
ODD_NAMES = (
    "with space", "plus+plus", "per%cent", "per%20cent", "equals=1", "hash#1", "question?x=y", "and&and", "semi;colon",
    "comma,comma", "colon:1", "at@home", "tilde~", "quote'quote", "brackets[1]", "braces{1}", "ümläut", "日本語", "🙂",
    "(round)", "dollar$", "star*", "dots...", ".hidden", "-dash", "UPPER", "upper",
)  # fmt: skip

NO_KEYS = ("", "/", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/.", "a/..", "a/../b", "a/./b", "a\0b")
"""Keys that are not plain: each would lead to another object, or to none."""
FOREIGN_NAMES = (".nfs00000000004d2a00000001", ".DS_Store", "00000000000000000001.json~", "Thumbs.db", "._x", "#x#")
"""Names that file systems and users leave behind."""


class BrokenSource(Exception):
    """What an upload's chunks raise; the store may not swallow or replace it."""


class StoreConformance:
    large = LARGE

    def make_store(self) -> ObjectStore:
        """A new handle on the same place each time. `store.scoped(name)` of a new name must be empty."""
        raise NotImplementedError

    @pytest.fixture
    def name(self) -> str:
        return f"conformance-{uuid.uuid4().hex[:12]}"

    @pytest.fixture
    def store(self, name: str) -> ObjectStore:
        return self.make_store().scoped(name)

    # -- create-if-absent

    def test_a_second_create_loses_and_changes_nothing(self, store: ObjectStore) -> None:
        assert store.create("journal/1", b"first") is Created.WON
        assert store.create("journal/1", b"second, and longer") is Created.LOST
        assert store.create("journal/1", b"first") is Created.LOST
        assert store.get("journal/1") == b"first"
        assert store.create("journal/2", b"") is Created.WON
        assert store.create("journal/2", b"x") is Created.LOST
        assert store.get("journal/2") == b""

    def test_a_deleted_key_can_be_created_again(self, store: ObjectStore) -> None:
        store.create("journal/1", b"first")
        store.delete("journal/1")
        assert store.create("journal/1", b"second") is Created.WON
        assert store.get("journal/1") == b"second"

    def test_of_many_racing_writers_exactly_one_wins(self, store: ObjectStore, name: str) -> None:
        handles = [self.make_store().scoped(name) for _ in range(WRITERS)]
        start = Barrier(WRITERS)
        for number in range(ROUNDS):
            key = f"journal/{number:020d}.json"

            def write(writer: int, key: str = key) -> Created:
                start.wait()
                return handles[writer].create(key, f"writer {writer}".encode())

            outcomes = at_once(write, range(WRITERS), WRITERS)
            winners = [writer for writer, outcome in enumerate(outcomes) if outcome is Created.WON]
            assert len(winners) == 1
            assert store.get(key) == f"writer {winners[0]}".encode()

    def test_the_probe_accepts_the_store_and_leaves_nothing(self, store: ObjectStore) -> None:
        require_create_if_absent(store)
        assert list(store.list("")) == []

    # -- writing and reading

    def test_what_is_written_is_read_at_once_by_every_handle(self, store: ObjectStore, name: str) -> None:
        other = self.make_store().scoped(name)
        for number in range(20):
            key, data = f"a/{number}", f"value {number}".encode()
            store.put(key, data)
            assert other.get(key) == data
            assert other.exists(key)
            assert key in [item.key for item in other.list("a/")]

    def test_put_replaces(self, store: ObjectStore) -> None:
        store.put("owner.json", b"first, and longer")
        store.put("owner.json", b"second")
        assert store.get("owner.json") == b"second"

    def test_a_missing_object_is_no_outage(self, store: ObjectStore) -> None:
        assert not store.exists("nothing")
        for read in (
            lambda: store.get("nothing"),
            lambda: store.read("nothing", 0, 10),
            lambda: store.read("nothing", 0, 0),
            lambda: list(store.stream("nothing")),
        ):
            with pytest.raises(ObjectNotFound):
                read()

    @pytest.mark.parametrize("size", [0, 1, 100_000])
    def test_a_small_upload(self, store: ObjectStore, size: int) -> None:
        data = _bytes(size)
        store.upload("blobs/ab/small", [data[:10], data[10:]])
        assert store.get("blobs/ab/small") == data
        assert b"".join(store.stream("blobs/ab/small")) == data

    def test_a_large_upload_and_ranged_reads(self, store: ObjectStore) -> None:
        data = _bytes(self.large)
        store.upload("blobs/ab/large", _pieces(data))
        digest = hashlib.sha256()
        for piece in store.stream("blobs/ab/large"):
            digest.update(piece)
        assert digest.hexdigest() == hashlib.sha256(data).hexdigest()
        (listed,) = store.list("blobs/")
        assert listed.size == len(data)
        for offset, length in ((0, 1), (0, 100_000), (5 << 20, 70_000), (len(data) - 5, 5), (16 << 20, 1 << 20)):
            assert store.read("blobs/ab/large", offset, length) == data[offset : offset + length]

    def test_a_ranged_read_ends_with_the_object(self, store: ObjectStore) -> None:
        store.put("a", b"0123456789")
        assert store.read("a", 7, 100) == b"789"
        assert store.read("a", 10, 5) == b""
        assert store.read("a", 50, 5) == b""
        assert store.read("a", 3, 0) == b""

    def test_equal_uploads_at_once_do_no_harm(self, store: ObjectStore, name: str) -> None:
        data = _bytes(1 << 20)
        handles = [self.make_store().scoped(name) for _ in range(4)]
        at_once(lambda handle: handle.upload("packs/x", [data]), handles, 4)
        assert store.get("packs/x") == data

    @pytest.mark.parametrize("size", [0, 10, LARGE])
    def test_an_upload_whose_source_breaks_leaves_nothing(self, store: ObjectStore, size: int) -> None:
        broken = _Breaking(_bytes(min(size, self.large)))
        with pytest.raises(BrokenSource) as caught:
            store.upload("blobs/ab/broken", broken)
        assert caught.value is broken.failure
        assert not store.exists("blobs/ab/broken")
        assert list(store.list("")) == []

    def test_an_object_is_copied_inside_or_the_store_says_that_it_cannot(self, store: ObjectStore, name: str) -> None:
        """Of that version, and of no other. From another scope of the same store, as a work directory is."""
        elsewhere = self.make_store().scoped(f"{name}-elsewhere")
        elsewhere.put("state/1.sst", b"one")
        elsewhere.put("state/2.sst", b"two")
        foreign = StoredAt("s3://somebody-elses", "state/1.sst", "1")
        assert store.copy_inside(foreign, "blobs/foreign", "blobs/through") is None
        found = {item.key: elsewhere.stored_at(item.key, item.version) for item in elsewhere.list("")}
        one, two = found["state/1.sst"], found["state/2.sst"]
        if one is None or two is None:
            assert store.stored_at("blobs/1", "") is None
            return
        version = store.copy_inside(one, "blobs/1", "blobs/through")
        assert store.get("blobs/1") == b"one"
        assert [item.version for item in store.list("blobs/")] == [version]
        assert store.copy_inside(two, "blobs/1", "blobs/through") != version, "over what is there"
        assert store.get("blobs/1") == b"two"
        elsewhere.put("state/1.sst", b"another one")
        assert store.copy_inside(one, "blobs/1", "blobs/through") is None, "the object has another version"
        assert store.get("blobs/1") == b"two", "what another one has copied there, and proved, stays"
        with pytest.raises(ObjectNotFound):
            store.copy_inside(StoredAt(one.bucket, f"{one.key}-nowhere", one.version), "blobs/1", "blobs/through")
        assert [item.key for item in store.list("blobs/")] == ["blobs/1"]

    def test_an_upload_whose_source_breaks_leaves_the_object_that_was_there(self, store: ObjectStore) -> None:
        store.upload("blobs/ab/x", [b"whole"])
        with pytest.raises(BrokenSource):
            store.upload("blobs/ab/x", _Breaking(b"half of"))
        assert store.get("blobs/ab/x") == b"whole"

    @pytest.mark.parametrize("odd", ODD_NAMES)
    def test_odd_names(self, store: ObjectStore, odd: str) -> None:
        key = f"{odd}/{odd}"
        assert store.create(key, odd.encode()) is Created.WON
        assert store.create(key, b"again") is Created.LOST
        assert store.get(key) == odd.encode()
        assert [item.key for item in store.list(f"{odd}/")] == [key]
        assert store.children() == (odd,)
        store.delete(key)
        assert not store.exists(key)

    # -- listing

    def test_listing_is_complete_and_in_order_over_many_pages(self, store: ObjectStore) -> None:
        keys = [f"journal/{number:020d}.json" for number in range(MANY)]
        at_once(lambda key: store.put(key, b"{}"), keys, 16)
        store.put("journal-of-another", b"")
        store.put("manifests/1", b"")
        assert [item.key for item in store.list("journal/")] == keys
        assert [item.key for item in store.list("journal/", after=keys[-3])] == keys[-2:]
        assert [item.key for item in store.list("journal/", after=keys[0])] == keys[1:]
        assert [item.key for item in store.list("journal/", after=keys[-1])] == []
        assert next(iter(store.list("journal/", after=keys[40]))).key == keys[41]

    def test_a_prefix_may_end_anywhere(self, store: ObjectStore) -> None:
        keys = sorted(["blobs/aa/1", "blobs/ab/1", "blobs/ab/2", "blobs/b", "blobs-2/ab", "blob", "c/blobs/ab/3"])
        for key in keys:
            store.put(key, b"x")
        for prefix in ("", "b", "blob", "blobs", "blobs/", "blobs/a", "blobs/ab", "blobs/ab/", "blobs/ab/1", "x", "c"):
            assert [item.key for item in store.list(prefix)] == [key for key in keys if key.startswith(prefix)], prefix

    def test_after_may_be_any_string(self, store: ObjectStore) -> None:
        keys = sorted(["a/1", "a/2/3", "a/2-", "a-b", "a0", "b/1", "c"])
        for key in keys:
            store.put(key, b"x")
        for after in ("", "a", "a/1", "a/15", "a/2/", "a0", "b", "b/1", "z"):
            assert [item.key for item in store.list("", after=after)] == [key for key in keys if key > after], after
            expected = [key for key in keys if key > after and key.startswith("a/")]
            assert [item.key for item in store.list("a/", after=after)] == expected, after

    def test_keys_are_ordered_as_strings(self, store: ObjectStore) -> None:
        """By code point. Nothing beyond U+FFFF: some servers order that by UTF-16, and holdfast's keys are ASCII."""
        keys = ("a/1", "a-/1", "a.x", "A", "b/é", "b/z", "b/~", "b/\uff5e", "b/a b", "b/a/b")
        for key in keys:
            store.put(key, b"")
        assert [item.key for item in store.list("")] == sorted(keys)

    def test_a_listing_says_size_and_time(self, store: ObjectStore) -> None:
        store.put("a", b"12345")
        store.put("b", b"")
        first, second = store.list("")
        assert (first.size, second.size) == (5, 0)
        assert 0 <= second.modified_at - first.modified_at < 600

    def test_children_are_the_components_directly_below(self, store: ObjectStore) -> None:
        assert store.children() == ()
        for key in ("orders/journal/1", "orders/owner.json", "clicks/a/b/c", "zone 9/x"):
            store.put(key, b"")
        assert store.children() == ("clicks", "orders", "zone 9")
        assert store.scoped("orders").children() == ("journal",)

    # -- deleting

    def test_delete_is_idempotent(self, store: ObjectStore) -> None:
        store.put("a/1", b"")
        store.put("a/2", b"")
        for _ in range(3):
            store.delete("a/1")
            store.delete("never/there")
        assert [item.key for item in store.list("")] == ["a/2"]

    # -- foreign objects, and an unreliable network

    def test_what_is_listed_is_read_whole_or_not_at_all(self, store: ObjectStore) -> None:
        """Right after the write, when other machines may not have all bytes yet."""
        for number in range(60):
            key, data = f"journal/{number:03}", _bytes(number * 37)
            store.put(key, data)
            (listed,) = store.list(key)
            assert listed.size == len(data)
            for read in (store.get, partial(_streamed, store), partial(store.read, offset=0, length=len(data))):
                try:
                    found = read(key)
                except StorageUnreachable:
                    continue
                assert found == data

    @pytest.mark.parametrize("key", NO_KEYS)
    def test_what_is_no_key_is_refused_before_anything_is_touched(self, store: ObjectStore, key: str) -> None:
        store.put("a", b"value")
        for attempt in (
            lambda: store.create(key, b"x"),
            lambda: store.put(key, b"x"),
            lambda: store.upload(key, [b"x"]),
            lambda: store.get(key),
            lambda: store.read(key, 0, 1),
            lambda: list(store.stream(key)),
            lambda: store.exists(key),
            lambda: store.delete(key),
            lambda: store.scoped(key),
        ):
            with pytest.raises(InvalidKey):
                attempt()
        assert [(item.key, item.size) for item in store.list("")] == [("a", 5)]

    @pytest.mark.parametrize("prefix", ["/", "/a", "a//", "../", "a/../", "./a", "a\0"])
    def test_what_begins_no_key_is_not_listed(self, store: ObjectStore, prefix: str) -> None:
        with pytest.raises(InvalidKey):
            list(store.list(prefix))

    def test_foreign_names_are_listed_as_they_are(self, store: ObjectStore) -> None:
        keys = sorted(f"journal/{name}" for name in FOREIGN_NAMES)
        for key in keys:
            store.put(key, b"somebody's")
        assert [item.key for item in store.list("journal/")] == keys

    def test_an_answer_that_is_lost_does_not_change_who_won(self, store: ObjectStore) -> None:
        faulty = FaultyStore(store, Faults(after=1.0))

        def heal(seconds: float) -> None:
            faulty.faults = Faults()

        retrying = RetryingStore(faulty, Patience(sleep=heal))
        assert retrying.create("journal/1", b"mine") is Created.WON
        faulty.faults = Faults(after=1.0)
        assert retrying.create("journal/1", b"another's") is Created.LOST
        faulty.faults = Faults(after=1.0)
        retrying.delete("journal/1")
        assert not store.exists("journal/1")

    def test_of_many_that_claim_a_home_at_once_all_see_the_same(self, store: ObjectStore, name: str) -> None:
        assert read_home_identity(store) is None
        handles = [self.make_store().scoped(name) for _ in range(8)]
        now = datetime.now(UTC)
        made = at_once(lambda handle: ensure_home_identity(handle, id=uuid.uuid4().hex, now=now), handles, 8)
        assert len(set(made)) == 1
        assert read_home_identity(store) == made[0]
        assert store.children() == (), "it is no job"

    # -- two homes

    def test_homes_whose_names_begin_alike_never_meet(self, store: ObjectStore) -> None:
        homes = {name: store.scoped(name) for name in ("a", "ab", "a b", "a-b", "b")}
        for name, home in homes.items():
            assert home.create("journal/1", name.encode()) is Created.WON
            home.put(f"only-{name}", b"")
        for name, home in homes.items():
            assert home.get("journal/1") == name.encode()
            assert [item.key for item in home.list("")] == ["journal/1", f"only-{name}"]
            assert home.children() == ("journal",)
        homes["a"].delete("journal/1")
        assert homes["ab"].exists("journal/1")
        assert homes["a"].create("journal/1", b"") is Created.WON

    def test_a_scope_within_a_scope_is_one_path(self, store: ObjectStore) -> None:
        store.scoped("team").scoped("orders").put("owner.json", b"x")
        assert store.get("team/orders/owner.json") == b"x"
        assert store.scoped("team/orders").get("owner.json") == b"x"
        assert store.scoped("team").url == f"{store.url}/team"


def at_once(work: Callable[[T], object], items: Iterable[T], threads: int) -> list[object]:
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


def _bytes(size: int) -> bytes:
    """The same for the same size, and without a pattern, so that swapped parts are detected."""
    return hashlib.shake_128(str(size).encode()).digest(size)


def _streamed(store: ObjectStore, key: str) -> bytes:
    return b"".join(store.stream(key))


def _pieces(data: bytes, size: int = 1 << 20) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


class _Breaking:
    """Chunks that end in an exception, every time they are iterated."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.failure = BrokenSource("the file changed")

    def __iter__(self) -> Iterator[bytes]:
        yield from _pieces(self._data)
        raise self.failure


class LinkConformance(StoreConformance):
    """For a store on a file system: no link that others create leads out of the store."""

    def plant_link(self, name: str, key: str) -> None:
        """Put a symbolic link at `key` of the store `name`, to a folder outside with a file `precious`."""
        raise NotImplementedError

    def test_a_link_leads_nowhere(self, store: ObjectStore, name: str) -> None:
        store.put("blobs/aa/1", b"whole")
        self.plant_link(name, "blobs/ab")
        assert [item.key for item in store.list("")] == ["blobs/aa/1"]
        assert store.scoped("blobs").children() == ("aa",)
        for attempt in (
            lambda: store.get("blobs/ab/precious"),
            lambda: store.read("blobs/ab/precious", 0, 1),
            lambda: store.exists("blobs/ab/precious"),
            lambda: store.put("blobs/ab/precious", b""),
            lambda: store.delete("blobs/ab/precious"),
            lambda: list(store.list("blobs/ab/")),
        ):
            with pytest.raises(StorageError):
                attempt()
