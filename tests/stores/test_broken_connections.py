"""What a store makes of a network that loses requests, answers and halves of bodies; the server behind it is real."""

import logging
from collections.abc import Callable, Iterator

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
from holdfast.storage.clients import clients_for
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.location import parse_location
from holdfast.storage.object_store import RemoteStore
from holdfast.storage.retrying import Patience, RetryingStore
from holdfast.storage.urls import open_store, require_create_if_absent
from tests.stores.proxy import Fate, Judge, Proxy, Seen, Status, proxy_to
from tests.stores.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server, s3_server


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    with proxy_to(s3.endpoint) as proxy:
        yield proxy


def once(store: S3Server, proxy: Proxy, name: str, request_timeout: float = 20) -> ObjectStore:
    """A store without retries behind the proxy."""
    location = parse_location(store.home(name, proxy.endpoint))
    clients = clients_for(location, request_timeout=request_timeout)
    return RemoteStore(clients, location.root, within=location.path)


def first(fate: Fate | Status, wanted: Callable[[Seen], bool] = lambda seen: True, times: int = 1) -> Judge:
    """That fate for the first requests that are wanted, and a good end for all others."""
    left = [fate] * times
    return lambda seen: left.pop() if left and wanted(seen) else Fate.PASS


def conditional(seen: Seen) -> bool:
    return seen.is_conditional_put


def test_an_answer_lost_after_a_create_is_unknown_and_the_object_is_there(s3: S3Server, proxy: Proxy) -> None:
    store = once(s3, proxy, "lost-answer")
    proxy.judge = first(Fate.LOSE_ANSWER)
    with pytest.raises(OutcomeUnknown):
        store.create("journal/1", b"mine")
    assert store.get("journal/1") == b"mine"


def test_a_request_lost_on_the_way_is_unknown_too(s3: S3Server, proxy: Proxy) -> None:
    store = once(s3, proxy, "lost-request")
    proxy.judge = first(Fate.LOSE_REQUEST)
    with pytest.raises(OutcomeUnknown):
        store.create("journal/1", b"mine")
    assert not store.exists("journal/1")


def test_an_answer_that_does_not_come_in_time_is_unknown(s3: S3Server, proxy: Proxy) -> None:
    store = once(s3, proxy, "hang", request_timeout=1.0)
    for method, attempt in (
        ("PUT", lambda: store.create("journal/1", b"mine")),
        ("DELETE", lambda: store.delete("journal/1")),
    ):
        proxy.judge = first(Fate.HANG)
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            attempt()
        proxy.wait_until_done(method)
    assert not once(s3, proxy, "hang").exists("journal/1")


def every_call(store: ObjectStore) -> tuple[Callable[[], object], ...]:
    return (
        lambda: store.create("b", b""),
        lambda: store.put("a", b""),
        lambda: store.upload("a", [b"x"]),
        lambda: store.upload("a", [bytes(1 << 20)] * 75),
        lambda: store.get("a"),
        lambda: store.read("a", 0, 1),
        lambda: list(store.stream("a")),
        lambda: store.exists("a"),
        lambda: list(store.list("")),
        store.children,
        lambda: store.delete("a"),
    )


def test_no_request_waits_for_ever(s3: S3Server, proxy: Proxy) -> None:
    once(s3, proxy, "silence").put("a", b"value")
    store = once(s3, proxy, "silence", request_timeout=0.1)
    proxy.judge = lambda seen: Fate.HOLD
    for attempt in every_call(store):
        with pytest.raises((StorageUnreachable, OutcomeUnknown), match="no answer in time"):
            attempt()


def test_what_was_in_doubt_is_told_with_the_cause_that_keeps_it_so(s3: S3Server, proxy: Proxy) -> None:
    store = open_store(s3.home("cause", proxy.endpoint), deadline=60)
    answers = iter([Fate.LOSE_REQUEST, Fate.LOSE_REQUEST])
    proxy.judge = lambda seen: next(answers, Status(403, b"<Error><Code>ExpiredToken</Code></Error>"))
    with pytest.raises(OutcomeUnknown, match="403 ExpiredToken") as caught:
        store.create("a", b"")
    assert isinstance(caught.value.__cause__, StorageDenied)


def test_a_refused_connection_is_no_doubt(s3: S3Server) -> None:
    location = parse_location(s3.home("refused", "http://127.0.0.1:1"))
    store = RemoteStore(clients_for(location), location.root, within=location.path)
    for attempt in (
        lambda: store.create("a", b""),
        lambda: store.delete("a"),
        lambda: store.upload("a", [b""]),
        lambda: store.get("a"),
        lambda: list(store.list("")),
    ):
        with pytest.raises(StorageUnreachable, match="no connection to the server"):
            attempt()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status(403, b"<Error><Code>AccessDenied</Code></Error>"), StorageDenied),
        (Status(400, b"<Error><Code>ExpiredToken</Code></Error>"), StorageDenied),
        (Status(401), OutcomeUnknown),
        (Status(404, b"<Error><Code>NoSuchBucket</Code></Error>"), StorageNotThere),
        (Status(400, b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>"), StorageNotThere),
        (Status(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>"), StorageUnreachable),
        (Status(429), OutcomeUnknown),
        (Status(503, b"<Error><Code>SlowDown</Code></Error>"), StorageThrottled),
        (Status(503), OutcomeUnknown),
        (Status(500, b"<Error><Code>InternalError</Code></Error>"), OutcomeUnknown),
        (Status(502), OutcomeUnknown),
        (Status(504), OutcomeUnknown),
        (Status(507), OutcomeUnknown),
        (Status(507, b"<Error><Code>XMinioStorageFull</Code></Error>"), StorageFull),
        (Status(403, b"<Error><Code>QuotaExceeded</Code></Error>"), StorageFull),
        (Status(418), OutcomeUnknown),
        (Status(501, b"<Error><Code>NotImplemented</Code></Error>"), StorageError),
    ],
)
def test_what_a_server_answers_to_a_create_is_named(
    s3: S3Server, proxy: Proxy, status: Status, expected: type[StorageError]
) -> None:
    store = once(s3, proxy, "answers")
    proxy.judge = first(status)
    with pytest.raises(StorageError) as caught:
        store.create("a", b"")
    assert type(caught.value) is expected
    assert str(status.code) in caught.value.message


def test_retries_settle_every_create(s3: S3Server, proxy: Proxy) -> None:
    store = open_store(s3.home("settled", proxy.endpoint), deadline=200)
    for number, fate in enumerate([Fate.LOSE_ANSWER, Fate.LOSE_REQUEST, Status(503), Status(500)]):
        proxy.judge = first(fate, conditional, times=2)
        assert store.create(f"journal/{number}", f"mine {number}".encode()) is Created.WON
        proxy.judge = first(fate, conditional, times=2)
        assert store.create(f"journal/{number}", b"another's") is Created.LOST
        assert store.get(f"journal/{number}") == f"mine {number}".encode()


def test_retries_wait_out_passing_faults(s3: S3Server, proxy: Proxy) -> None:
    store = open_store(s3.home("waiting", proxy.endpoint), deadline=200)
    faults = [Fate.LOSE_ANSWER, Status(429), Status(503, b"<Error><Code>SlowDown</Code></Error>"), Status(500)]
    for fate in faults:
        for call in (
            lambda: store.put("a", b"value"),
            lambda: store.upload("b", [b"val", b"ue"]),
            lambda: store.get("a") == b"value",
            lambda: store.read("b", 0, 3) == b"val",
            lambda: b"".join(store.stream("b")) == b"value",
            lambda: store.exists("a"),
            lambda: [item.key for item in store.list("")] == ["a", "b"],
            lambda: store.delete("b"),
        ):
            proxy.judge = first(fate)
            assert call() in (None, True)


def test_a_download_that_breaks_off_goes_on_where_it_was(s3: S3Server, proxy: Proxy) -> None:
    data = bytes(range(256)) * 40_000
    plain = open_store(s3.home("broken-download"))
    plain.upload("blob", [data])
    proxy.judge = first(Fate.CUT_BODY, times=2)
    with pytest.raises(StorageUnreachable):
        b"".join(once(s3, proxy, "broken-download").stream("blob"))
    assert b"".join(open_store(s3.home("broken-download", proxy.endpoint), deadline=200).stream("blob")) == data


def test_an_upload_that_breaks_off_leaves_nothing_and_is_repeated(s3: S3Server, proxy: Proxy) -> None:
    data = bytes(1 << 20)
    is_part = lambda seen: "partNumber" in seen.path  # noqa: E731
    proxy.judge = first(Fate.LOSE_REQUEST, is_part)
    with pytest.raises(StorageUnreachable):
        once(s3, proxy, "broken-upload").upload("blob", [data] * 75)
    store = open_store(s3.home("broken-upload", proxy.endpoint), deadline=200)
    assert list(store.list("")) == []
    methods = {seen.method for seen in proxy.seen if "uploadId" in seen.path}
    assert "DELETE" in methods, "the parts were dropped"
    proxy.judge = first(Fate.LOSE_ANSWER, is_part)
    store.upload("blob", [data] * 75)
    assert store.get("blob") == data * 75


def test_what_will_not_pass_is_not_tried_again(s3: S3Server, proxy: Proxy) -> None:
    store = open_store(s3.home("final", proxy.endpoint), deadline=200)
    denied, full = b"<Error><Code>AccessDenied</Code></Error>", b"<Error><Code>QuotaExceeded</Code></Error>"
    for status, kind in ((Status(403, denied), StorageDenied), (Status(403, full), StorageFull)):
        proxy.judge = lambda seen, status=status: status  # type: ignore[misc]
        proxy.seen.clear()
        with pytest.raises(kind):
            store.create("a", b"")
        assert len(proxy.seen) == 1
    proxy.judge = lambda seen: Fate.PASS
    with pytest.raises(ObjectNotFound):
        store.get("a")
    with pytest.raises(StorageNotThere):
        open_store(f"s3://no-such-bucket-here/x?endpoint={s3.endpoint}").create("a", b"")


def test_a_store_that_stays_down_fails_at_the_deadline(s3: S3Server) -> None:
    slept: list[float] = []
    times = iter(range(0, 1000, 3))
    patience = Patience(deadline=20, clock=lambda: float(next(times)), sleep=slept.append, draw=lambda: 1.0)
    location = parse_location(s3.home("down", "http://127.0.0.1:1"))
    store = RetryingStore(RemoteStore(clients_for(location), location.root), patience)
    with pytest.raises(StorageUnreachable):
        store.create("a", b"")
    assert slept == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2][: len(slept)]
    assert len(slept) >= 4


def test_a_server_that_ignores_the_condition_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without signatures, so that the proxy can take the header away."""
    with (
        s3_server(tmp_path_factory.mktemp("s3-open"), authorization="none") as server,
        proxy_to(server.endpoint) as proxy,
    ):
        store = open_store(server.home("home", proxy.endpoint), deadline=60)
        require_create_if_absent(store)
        proxy.without_headers = frozenset({"if-none-match"})
        with pytest.raises(StorageError, match="lets an object be created twice"):
            require_create_if_absent(store)
        assert list(store.list("")) == []


@pytest.mark.parametrize("secret", ["wrong-s3cr3t-Aa/Bb+Cc", SECRET_KEY[::-1]])
def test_secrets_appear_nowhere(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, secret: str
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    store = open_store(s3.home("secrets"), deadline=60)
    told = [repr(store), str(store), store.url]
    for call in every_call(store):
        with pytest.raises(StorageDenied) as caught:
            call()
        told += [str(caught.value), *_chain(caught.value)]
    for text in [*told, caplog.text]:
        for hidden in (secret, SECRET_KEY, ACCESS_KEY, "Signature=", "StringToSign"):
            assert hidden not in text


def _chain(error: BaseException | None) -> list[str]:
    texts = []
    while error is not None:
        texts.append(repr(error))
        error = error.__cause__ or error.__context__
    return texts


def test_a_bucket_is_named_in_every_message(s3: S3Server, proxy: Proxy) -> None:
    with pytest.raises(ObjectNotFound, match=f"could not read s3://{BUCKET}/names/journal/1: there is no such object"):
        once(s3, proxy, "names").get("journal/1")


def test_a_busy_server_is_not_stormed(s3: S3Server, proxy: Proxy) -> None:
    proxy.judge = lambda seen: Status(503)
    slept: list[float] = []
    patience = Patience(deadline=30, clock=lambda: sum(slept), sleep=slept.append, draw=lambda: 0.0)
    with pytest.raises(StorageUnreachable):
        RetryingStore(once(s3, proxy, "busy"), patience).get("a")
    assert 2 <= len(proxy.seen) < 25
