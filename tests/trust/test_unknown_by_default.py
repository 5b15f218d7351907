"""R2: for a deciding write, unknown is the default. Only the store's own word means "not written".

The servers are real. A proxy before S3's answers as gateways do, after the server has done what was asked.
"""

from collections.abc import Iterator

import pytest

from holdfast.errors import ObjectNotFound, OutcomeUnknown, StorageError, StorageUnreachable
from holdfast.storage.clients import clients_for
from holdfast.storage.interface import Created, ObjectStore
from holdfast.storage.location import parse_location
from holdfast.storage.object_store import RemoteStore
from holdfast.storage.urls import open_store
from tests.stores.conftest import no_credentials_of_the_machine, s3  # noqa: F401
from tests.stores.proxy import Fate, Proxy, Seen, Status, proxy_to
from tests.stores.s3 import S3Server

GATEWAY = (400, 401, 403, 404, 405, 408, 409, 418, 421, 425, 429, 499, 500, 501, 502, 503, 504, 507, *range(520, 530))
GATEWAY = (*GATEWAY, 530, 599)
PAGE = b"<html><head><title>error</title></head><body>The requested page cannot be shown.</body></html>"


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:  # noqa: F811
    with proxy_to(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def retrying(s3: S3Server, proxy: Proxy, request: pytest.FixtureRequest) -> ObjectStore:  # noqa: F811
    return open_store(s3.home(request.node.name.translate(NAME), proxy.endpoint), deadline=20)


@pytest.fixture
def once(s3: S3Server, proxy: Proxy, request: pytest.FixtureRequest) -> ObjectStore:  # noqa: F811
    location = parse_location(s3.home(request.node.name.translate(NAME), proxy.endpoint))
    return RemoteStore(clients_for(location, request_timeout=20), location.root, within=location.path)


NAME = str.maketrans("[]", "--")


def answer_first(proxy: Proxy, status: Status, method: str) -> None:
    left = [status]

    def judge(seen: Seen) -> Fate | Status:
        return left.pop() if left and seen.method == method else Fate.PASS

    proxy.judge = judge


@pytest.mark.parametrize("code", GATEWAY)
def test_a_create_that_took_effect_is_won_whatever_a_gateway_answers(
    retrying: ObjectStore, proxy: Proxy, code: int
) -> None:
    answer_first(proxy, Status(code, PAGE, after=True), "PUT")
    assert retrying.create("journal/1", b"mine") is Created.WON
    assert retrying.get("journal/1") == b"mine"


@pytest.mark.parametrize("code", GATEWAY)
def test_without_retries_it_is_unknown(once: ObjectStore, proxy: Proxy, code: int) -> None:
    for body in (b"", PAGE, b'{"error": "forbidden"}'):
        answer_first(proxy, Status(code, body), "PUT")
        with pytest.raises(OutcomeUnknown, match=str(code)):
            once.create("journal/1", b"mine")
        answer_first(proxy, Status(code, body), "DELETE")
        with pytest.raises(OutcomeUnknown, match=str(code)):
            once.delete("journal/1")


@pytest.mark.parametrize(
    "code", ["AccessDenied", "QuotaExceeded", "NoSuchBucket", "SlowDown", "EntityTooLarge", "KMS.DisabledException"]
)
def test_what_the_store_itself_refuses_was_not_written(once: ObjectStore, proxy: Proxy, code: str) -> None:
    answer_first(proxy, Status(403, f"<Error><Code>{code}</Code></Error>".encode()), "PUT")
    with pytest.raises(StorageError, match=code) as caught:
        once.create("journal/1", b"mine")
    assert not isinstance(caught.value, OutcomeUnknown)
    assert not once.exists("journal/1")


def test_a_gateway_that_says_yes_by_itself_is_not_believed(once: ObjectStore, proxy: Proxy) -> None:
    """A portal's page with status 200 is no answer of a store: it has none of the fields that a store sends."""
    once.put("a", b"value")
    answer_first(proxy, Status(200, PAGE), "PUT")
    with pytest.raises(OutcomeUnknown):
        once.create("journal/1", b"mine")
    for read in (lambda: once.get("a"), lambda: once.read("a", 0, 5), lambda: list(once.stream("a"))):
        answer_first(proxy, Status(200, PAGE), "GET")
        with pytest.raises(StorageUnreachable):
            read()
    answer_first(proxy, Status(200, PAGE), "GET")
    assert [item.key for item in once.list("")] == ["a"], "a home is not empty because of one answer"
    answer_first(proxy, Status(200, PAGE), "HEAD")
    with pytest.raises(StorageUnreachable):
        once.exists("nothing")


def test_a_gateway_that_knows_no_such_range_does_not_make_an_object_shorter(once: ObjectStore, proxy: Proxy) -> None:
    once.put("a", b"value")
    answer_first(proxy, Status(416, PAGE), "GET")
    with pytest.raises(StorageUnreachable, match="only 0 of its 3 bytes arrived"):
        once.read("a", 2, 100)
    assert once.read("a", 5, 100) == b""


class TestAbsence:
    """A 404 counts when the store says what is not there. Any gateway can answer a bare one."""

    def test_a_bare_404_is_an_outage(self, once: ObjectStore, proxy: Proxy) -> None:
        once.put("a", b"value")
        for body in (b"", PAGE):
            for read in (
                lambda: once.get("a"),
                lambda: once.read("a", 0, 3),
                lambda: list(once.stream("a")),
                lambda: list(once.list("")),
            ):
                answer_first(proxy, Status(404, body), "GET")
                with pytest.raises(StorageUnreachable, match="404, without an error code of the store"):
                    read()

    def test_one_that_passes_is_waited_out(self, retrying: ObjectStore, proxy: Proxy) -> None:
        retrying.put("a", b"value")
        answer_first(proxy, Status(404, PAGE), "GET")
        assert retrying.get("a") == b"value"
        answer_first(proxy, Status(404), "HEAD")
        assert retrying.exists("a"), "a HEAD has no body: a GET decides"
        answer_first(proxy, Status(404), "HEAD")
        assert retrying.read("a", 0, 0) == b""

    def test_what_is_not_there_is_said_by_the_store(self, once: ObjectStore) -> None:
        assert not once.exists("nothing")
        with pytest.raises(ObjectNotFound):
            once.read("nothing", 0, 0)
        once.put("empty", b"")
        assert once.exists("empty")

    def test_a_delete_is_not_done_because_a_gateway_knows_nothing(self, retrying: ObjectStore, proxy: Proxy) -> None:
        retrying.put("a", b"value")
        answer_first(proxy, Status(404, PAGE), "DELETE")
        retrying.delete("a")
        assert not retrying.exists("a")
