"""The decorators of stores, over a real directory: what is tried again and what not, what is counted, how fast."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import (
    ObjectNotFound,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageNotThere,
    StorageThrottled,
    StorageUnreachable,
)
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.limited import Allowance, LimitedStore
from holdfast.storage.local import LocalStore
from holdfast.storage.metered import Meter, MeteredStore, StoreRequest, Usage
from holdfast.storage.object_store import PART, SINGLE_PUT, put_requests
from holdfast.storage.prices import dollars_a_month
from holdfast.storage.retrying import Patience, RetryingStore
from holdfast.testing.stores import Faults, FaultyStore, StoreConformance


class HandClock:
    """Time passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def patient(store: ObjectStore, clock: HandClock, deadline: float = 30.0) -> RetryingStore:
    return RetryingStore(store, Patience(deadline, clock, clock.sleep, lambda: 1.0))


class Scripted(LocalStore):
    """Raises what the script says, one item per call of `create`, `put`, `delete` and `get`; None does the call."""

    def __init__(self, root: Path, script: list[StorageError | None], *, effect_first: bool = False) -> None:
        super().__init__(root)
        self.script = script
        self.effect_first = effect_first
        self.calls: list[str] = []

    def _turn(self, name: str, call: Callable[[], object]) -> object:
        self.calls.append(name)
        failure = self.script.pop(0) if self.script else None
        if failure is None:
            return call()
        if self.effect_first:
            call()
        raise failure

    def create(self, key: str, data: bytes) -> Created:
        return self._turn("create", lambda: super(Scripted, self).create(key, data))  # type: ignore[return-value]

    def get(self, key: str) -> bytes:
        return self._turn("get", lambda: super(Scripted, self).get(key))  # type: ignore[return-value]

    def put(self, key: str, data: bytes) -> None:
        self._turn("put", lambda: super(Scripted, self).put(key, data))

    def delete(self, key: str) -> None:
        self._turn("delete", lambda: super(Scripted, self).delete(key))


# -- retrying


def test_an_unknown_create_that_took_effect_is_won(tmp_path: Path, clock: HandClock) -> None:
    store = Scripted(tmp_path, [OutcomeUnknown("no answer")], effect_first=True)
    assert patient(store, clock).create("a", b"mine") is Created.WON
    assert store.calls == ["create", "get"]


def test_an_unknown_create_that_took_no_effect_is_tried_again(tmp_path: Path, clock: HandClock) -> None:
    store = Scripted(tmp_path, [OutcomeUnknown("no answer")])
    assert patient(store, clock).create("a", b"mine") is Created.WON
    assert store.calls == ["create", "get", "create"]


def test_an_unknown_create_at_a_key_of_another_is_lost(tmp_path: Path, clock: HandClock) -> None:
    LocalStore(tmp_path).create("a", b"another's")
    store = Scripted(tmp_path, [OutcomeUnknown("no answer")], effect_first=True)
    assert patient(store, clock).create("a", b"mine") is Created.LOST


def test_a_write_that_comes_late_is_known_as_ones_own(tmp_path: Path, clock: HandClock) -> None:
    """Unknown, not there, tried again, lost: to the first try, which arrived in between."""
    store = Scripted(tmp_path, [OutcomeUnknown("no answer")])

    def arrive_late(seconds: float) -> None:
        clock.now += seconds
        LocalStore(tmp_path).create("a", b"mine")

    clock.sleep = arrive_late  # type: ignore[method-assign]
    assert patient(store, clock).create("a", b"mine") is Created.WON
    assert store.calls == ["create", "get", "create", "get"]


def test_a_lost_create_without_doubt_is_lost_even_to_equal_bytes(tmp_path: Path, clock: HandClock) -> None:
    LocalStore(tmp_path).create("a", b"same")
    store = Scripted(tmp_path, [])
    assert patient(store, clock).create("a", b"same") is Created.LOST
    assert store.calls == ["create"]


@pytest.mark.parametrize("later", [StorageUnreachable("down"), StorageDenied("revoked"), StorageFull("full")])
def test_doubt_is_never_forgotten(tmp_path: Path, clock: HandClock, later: StorageError) -> None:
    """Whatever the last try says, the first may have taken effect."""
    store = Scripted(tmp_path, [OutcomeUnknown("no answer"), *[later] * 100])
    with pytest.raises(OutcomeUnknown):
        patient(store, clock).create("a", b"mine")
    store.script = [OutcomeUnknown("no answer"), *[later] * 100]
    with pytest.raises(OutcomeUnknown):
        patient(store, clock).delete("a")


@pytest.mark.parametrize("final", [StorageDenied("x"), StorageFull("x"), StorageNotThere("x"), StorageError("x")])
def test_what_will_not_pass_is_not_tried_again(tmp_path: Path, clock: HandClock, final: StorageError) -> None:
    store = Scripted(tmp_path, [final] * 5)
    retrying = patient(store, clock)
    for call in (lambda: retrying.create("a", b""), lambda: retrying.put("a", b""), lambda: retrying.get("a")):
        with pytest.raises(type(final)):
            call()
    assert store.calls == ["create", "put", "get"]
    assert clock.slept == []


def test_a_missing_object_is_not_waited_for(tmp_path: Path, clock: HandClock) -> None:
    with pytest.raises(ObjectNotFound):
        patient(LocalStore(tmp_path), clock).get("nothing")
    assert clock.slept == []


@pytest.mark.parametrize("passing", [StorageUnreachable("x"), StorageThrottled("x"), OutcomeUnknown("x")])
def test_passing_faults_are_waited_out_with_growing_delays(
    tmp_path: Path, clock: HandClock, passing: StorageError
) -> None:
    patient(Scripted(tmp_path, [passing] * 5), clock).put("a", b"x")
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.6]
    assert LocalStore(tmp_path).get("a") == b"x"


def test_no_try_begins_after_the_deadline(tmp_path: Path, clock: HandClock) -> None:
    with pytest.raises(StorageThrottled):
        patient(Scripted(tmp_path, [StorageThrottled("slow down")] * 99), clock, deadline=10).put("a", b"x")
    assert clock.now <= 10
    assert clock.now > 4


def test_an_upload_is_repeated_when_its_chunks_can_be(tmp_path: Path, clock: HandClock) -> None:
    faulty = FaultyStore(LocalStore(tmp_path), Faults(torn=0.4), seed=3)
    patient(faulty, clock, 1000).upload("a", [b"x" * 10] * 5)
    assert LocalStore(tmp_path).get("a") == b"x" * 50
    faulty.faults = Faults(torn=1.0)
    with pytest.raises(StorageUnreachable):
        patient(faulty, clock).upload("b", iter([b"gone after one try"]))
    assert not LocalStore(tmp_path).exists("b")


def test_downloads_and_listings_go_on_where_they_broke(tmp_path: Path, clock: HandClock) -> None:
    plain = LocalStore(tmp_path)
    data = bytes(range(256)) * 20_000
    plain.upload("blob", [data])
    keys = [f"j/{number:03d}" for number in range(100)]
    for key in keys:
        plain.put(key, b"")
    for seed in range(5):
        retrying = patient(FaultyStore(plain, Faults(torn=0.2, before=0.2), seed), clock, 1000)
        assert [item.key for item in retrying.list("j/")] == keys
        assert b"".join(retrying.stream("blob")) == data


class TestConformanceUnderFaults(StoreConformance):
    """Half of all calls fail, and nobody notices."""

    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, clock: HandClock) -> None:
        self.path = tmp_path
        self.clock = clock

    def make_store(self) -> ObjectStore:
        faults = Faults(before=0.2, after=0.2, slow=0.1)
        store = FaultyStore(LocalStore(self.path), faults, seed=7, sleep=self.clock.sleep)
        return patient(store, self.clock, deadline=1e9)

    def test_a_second_create_loses_and_changes_nothing(self, store: ObjectStore) -> None:
        """Not so here: after a lost answer, equal bytes are taken for one's own."""


# -- faulty


def test_the_same_seed_gives_the_same_faults(tmp_path: Path) -> None:
    def outcomes(seed: int, name: str) -> list[str]:
        store = FaultyStore(LocalStore(tmp_path), Faults(before=0.3, after=0.3), seed).scoped(name)
        return [_outcome(lambda n=n: store.create(str(n), b"x")) for n in range(50)]  # type: ignore[misc]

    assert outcomes(1, "a") == outcomes(1, "b")
    assert outcomes(1, "c") != outcomes(2, "d")


def test_faults_after_the_effect_have_it(tmp_path: Path) -> None:
    store = FaultyStore(LocalStore(tmp_path), Faults(after=1.0))
    with pytest.raises(OutcomeUnknown):
        store.create("a", b"x")
    store.faults = Faults(before=1.0, error=StorageDenied)
    with pytest.raises(StorageDenied):
        store.scoped("b").create("a", b"x")
    store.faults = Faults()
    assert [item.key for item in store.list("")] == ["a"]


def _outcome(call: Callable[[], object]) -> str:
    try:
        return str(call())
    except StorageError as error:
        return type(error).__name__


# -- limited


def test_an_allowance_lets_a_burst_through_and_then_paces(clock: HandClock) -> None:
    allowance = Allowance(10, clock=clock, sleep=clock.sleep)
    for _ in range(30):
        allowance.take(1)
    assert clock.now == pytest.approx(2.0)
    clock.now += 100
    for _ in range(10):
        allowance.take(1)
    assert clock.now == pytest.approx(102.0)


def test_a_limited_store_paces_requests_and_bytes_of_all_its_scopes(tmp_path: Path, clock: HandClock) -> None:
    requests = Allowance(100, clock=clock, sleep=clock.sleep)
    volume = Allowance(1000, clock=clock, sleep=clock.sleep)
    store = LimitedStore(LocalStore(tmp_path), requests=requests, bytes=volume)
    for name in ("a", "b"):
        store.scoped(name).upload("blob", [b"x" * 500] * 4)
    assert clock.now == pytest.approx(3.0)
    assert b"".join(store.stream("a/blob")) == b"x" * 2000
    assert clock.now == pytest.approx(5.0)
    clock.now += 10
    for _ in range(200):
        store.delete("nothing")
    assert clock.now == pytest.approx(16.0, abs=0.1)


# -- metered


class TestMeteredAndLimitedConformance(StoreConformance):
    @pytest.fixture(autouse=True)
    def place(self, tmp_path: Path, clock: HandClock) -> None:
        self.path = tmp_path
        self.allowance = Allowance(1e9, clock=clock, sleep=clock.sleep)

    def make_store(self) -> ObjectStore:
        limited = LimitedStore(LocalStore(self.path), requests=self.allowance, bytes=self.allowance)
        return MeteredStore(limited, Meter())


def test_requests_and_bytes_are_counted_by_kind(tmp_path: Path, clock: HandClock) -> None:
    meter = Meter(clock)
    store = MeteredStore(LocalStore(tmp_path), meter, put_requests).scoped("job")
    store.create("a", b"12345")
    store.create("a", b"12345")
    store.put("b", b"123")
    store.upload("c", [b"x" * (1 << 20)] * 80)
    assert store.get("a") == b"12345"
    store.read("a", 0, 2)
    assert sum(len(piece) for piece in store.stream("c")) == 80 << 20
    store.exists("a")
    with pytest.raises(ObjectNotFound):
        store.get("nothing")
    list(store.list(""))
    store.children()
    store.delete("a")
    clock.now = 60.0
    parts = 2 + 5
    assert meter.usage == Usage(
        put=3 + parts,
        get=5,
        list=2,
        delete=1,
        bytes_out=13 + (80 << 20),
        bytes_in=7 + (80 << 20),
        seconds=60.0,
    )
    assert meter.usage.since(replace(meter.usage, put=1, seconds=20.0)).put == 2 + parts


def test_tries_are_counted_one_by_one(tmp_path: Path, clock: HandClock) -> None:
    meter = Meter(clock)
    counted = MeteredStore(Scripted(tmp_path, [StorageUnreachable("x")] * 3), meter)
    patient(counted, clock).put("a", b"x")
    assert meter.usage.put == 4


def test_uploads_are_counted_by_their_parts() -> None:
    assert put_requests(0) == put_requests(SINGLE_PUT) == 1
    assert put_requests(SINGLE_PUT + 1) == 2 + 5
    assert put_requests(10 * PART) == 12


def test_latencies_are_those_of_the_newest_requests(clock: HandClock) -> None:
    meter = Meter(clock)
    assert meter.latency(StoreRequest.PUT) is None
    for number in range(100):
        meter.took(StoreRequest.PUT, number / 1000)
    latency = meter.latency(StoreRequest.PUT)
    assert latency is not None
    assert (latency.requests, latency.p50, latency.p99) == (100, 0.05, 0.099)


def test_a_month_of_requests_has_a_price() -> None:
    an_hour = Usage(put=3600, get=3600, list=60, delete=1000, seconds=3600.0)
    assert dollars_a_month("s3://bucket/x", an_hour) == pytest.approx(14.4, abs=0.3)
    assert dollars_a_month("az://bucket/x", an_hour) > 14.4  # type: ignore[operator]
    assert dollars_a_month("file:///x", an_hour) is None
    assert dollars_a_month("s3://bucket/x", Usage(put=5)) is None
