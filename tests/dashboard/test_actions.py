"""Actions of the page: a checkpoint now, a savepoint. Only where they are on, with the token, from our own pages."""

import http.client
import json
import socket
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast.cli.dashboard.actions import Actions
from holdfast.cli.dashboard.guard import FORM_WORD, Guard
from holdfast.cli.main import main
from holdfast.errors import CheckpointFailed
from holdfast.repository.entries import Failure
from holdfast.repository.mailbox import KEY, read_request
from tests.dashboard.homes import dashboard, lost, running
from tests.dashboard.owners import GUARD, TOKEN, owned
from tests.patience import PATIENCE

BEARER = {"Authorization": f"Bearer {TOKEN}"}
COOKIE = {"Cookie": f"holdfast_token={TOKEN}"}
WORD = f"{FORM_WORD}={GUARD.form_word}"
FULL = Failure("storage_full", "no space left", True, "make room")


class Answer:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def document(self) -> Any:
        return json.loads(self.body)


def sent(
    url: str, method: str, path: str, headers: dict[str, str] | None = None, body: str | bytes | None = None
) -> Answer:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


CHECKPOINTS = "/api/v1/jobs/orders/checkpoints"
SAVEPOINTS = "/api/v1/jobs/orders/savepoints"
DROP = f"{SAVEPOINTS}/before-upgrade/drop"
COLLECT = "/api/v1/jobs/orders/collect"


def test_a_script_with_the_token_gets_a_checkpoint_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home", GUARD) as url, owned(history) as owner:
        answer = sent(url, "POST", CHECKPOINTS, BEARER)
        assert (answer.status, answer.document["id"], answer.document["status"]) == (201, 4, "completed")
        assert answer.headers["Location"] == "/api/v1/jobs/orders/checkpoints/4"
        named = sent(url, "POST", SAVEPOINTS, {**BEARER, "Content-Type": "application/json"}, '{"name": "v2"}')
        assert (named.status, named.document["name"]) == (201, "v2")
        listed = sent(url, "GET", SAVEPOINTS, BEARER).document["savepoints"]
        assert [each["id"] for each in listed if each["name"] == "v2"] == [5]
        again = sent(url, "POST", SAVEPOINTS, {**BEARER, "Content-Type": "application/json"}, '{"name": "v2"}')
        assert (again.status, owner.served) == (422, [("checkpoint", None), ("savepoint", "v2")])
    assert "127.0.0.1 asks job orders to make savepoint v2" in capsys.readouterr().err


def test_a_script_with_the_token_drops_a_savepoint_and_collects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = running(tmp_path / "home", "orders", 4)
    with dashboard(tmp_path / "home", GUARD) as url, owned(history) as owner:
        dropped = sent(url, "POST", DROP, BEARER)
        assert (dropped.status, dropped.document) == (200, {"name": "before-upgrade", "checkpoint": 2})
        assert sent(url, "GET", SAVEPOINTS, BEARER).document["savepoints"] == []
        assert sent(url, "POST", DROP, BEARER).status == 404, "it is gone"
        assert sent(url, "POST", f"{SAVEPOINTS}/..%2Fx/drop", BEARER).status == 422
        collected = sent(url, "POST", COLLECT, BEARER)
        assert (collected.status, collected.document["message"]) == (200, "7 objects are deleted")
        assert owner.served == [("delete-savepoint", "before-upgrade"), ("collect", None)]
    assert "127.0.0.1 asks job orders to drop savepoint before-upgrade" in capsys.readouterr().err


ATTACKS: tuple[tuple[str, dict[str, str], str, int], ...] = (
    ("no token", {}, "", 401),
    ("a wrong token", {"Authorization": "Bearer 0123456789abcdee"}, "", 401),
    ("the token in the query", {}, "", 401),
    ("another scheme", {"Authorization": f"Basic {TOKEN}"}, "", 401),
    ("the cookie alone", COOKIE, "", 403),
    ("the cookie and the word without an Origin", COOKIE, WORD, 403),
    ("the cookie and an Origin without the word", {**COOKIE, "Origin": "OWN"}, "", 403),
    ("a word of another process", {**COOKIE, "Origin": "OWN"}, f"{FORM_WORD}={'0' * 64}", 403),
    ("a word with a foreign letter", {**COOKIE, "Origin": "OWN"}, f"{FORM_WORD}=%C3%A9", 403),
    ("a page of another site", {**COOKIE, "Origin": "https://evil.example"}, WORD, 403),
    ("a page of another port", {**COOKIE, "Origin": "http://127.0.0.1:1"}, WORD, 403),
    ("a sandboxed frame", {**COOKIE, "Origin": "null"}, WORD, 403),
    ("a browser that says cross-site", {**COOKIE, "Origin": "OWN", "Sec-Fetch-Site": "cross-site"}, WORD, 403),
    ("a browser that says same-site", {**COOKIE, "Origin": "OWN", "Sec-Fetch-Site": "same-site"}, WORD, 403),
    ("a foreign page with the token", {**BEARER, "Origin": "https://evil.example"}, "", 403),
    ("a name that points here", {**BEARER, "Host": "evil.example"}, "", 421),
    ("the word as JSON from a text form", {**COOKIE, "Origin": "OWN", "Content-Type": "text/plain"}, "{}", 403),
)


def test_attacks_reach_no_job(tmp_path: Path) -> None:
    history = running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home", GUARD) as url, owned(history) as owner:
        form = "application/x-www-form-urlencoded"
        for what, headers, body, refused in ATTACKS:
            own = {name: url if value == "OWN" else value for name, value in headers.items()}
            query = f"?token={TOKEN}" if "query" in what else ""
            for path in (CHECKPOINTS, SAVEPOINTS, DROP, COLLECT):
                answer = sent(url, "POST", path + query, {"Content-Type": form, **own}, body + "&name=x")
                assert answer.status == refused, (what, path, answer.body)
        for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
            for path in (CHECKPOINTS, DROP, COLLECT):
                answered = sent(url, method, path, BEARER)
                assert (answered.status == 200) == (method == "GET" and path == CHECKPOINTS)
                assert answered.headers["Access-Control-Allow-Origin"] is None
        assert owner.served == []
        assert not (tmp_path / "home" / "orders" / KEY).exists()


@pytest.mark.parametrize(
    ("method", "extra", "status"),
    [
        ("POST", "Host: 127.0.0.1\r\nHost: evil.example\r\nContent-Length: 0\r\n", 421),
        ("POST", "Host: 127.0.0.1\r\n", 413),
        ("POST", "Host: 127.0.0.1\r\nContent-Length: 99999\r\n", 413),
        ("POST", "Host: 127.0.0.1\r\nContent-Length: -1\r\n", 413),
        ("POST", "Host: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n", 413),
    ],
)
def test_a_request_in_disorder_is_refused(tmp_path: Path, method: str, extra: str, status: int) -> None:
    history = running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home", GUARD) as url, owned(history) as owner:
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), PATIENCE) as wire:
            wire.sendall(f"{method} {CHECKPOINTS} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\n{extra}\r\n".encode())
            assert wire.makefile("rb").readline().split()[1] == str(status).encode()
        assert owner.served == []


def test_actions_are_off_unless_switched_on(tmp_path: Path) -> None:
    history = running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home", Guard(frozenset(), TOKEN)) as url, owned(history) as owner:
        for path in (CHECKPOINTS, SAVEPOINTS, DROP, COLLECT):
            assert sent(url, "POST", path, BEARER).status == 405
        page = sent(url, "GET", "/jobs/orders", COOKIE).body
        assert b"before-upgrade" in page
        assert not [word for word in (b"Checkpoint now", b"Collect", b"Drop") if word in page]
        assert owner.served == []


def test_a_reader_that_a_proxy_let_in_sees_no_actions_and_has_none(tmp_path: Path) -> None:
    guard = Guard(frozenset(), TOKEN, "X-User", actions=True, form_key=b"k")
    history = running(tmp_path / "home", "orders", 3)
    with dashboard(tmp_path / "home", guard) as url, owned(history) as owner:
        page = sent(url, "GET", "/jobs/orders", {"X-User": "ann"})
        assert (page.status, b"Checkpoint now" in page.body) == (200, False)
        assert sent(url, "POST", CHECKPOINTS, {"X-User": "ann", "Origin": url}).status == 401
        assert owner.served == []


def test_a_failure_of_the_job_is_the_answer(tmp_path: Path) -> None:
    history = running(tmp_path / "home", "orders", 3)
    lost(tmp_path / "home")
    with dashboard(tmp_path / "home", GUARD) as url, owned(history, FULL):
        answer = sent(url, "POST", CHECKPOINTS, BEARER)
        assert (answer.status, answer.document["error"]["hint"]) == (409, "make room")
        assert "storage_full: no space left" in answer.document["error"]["message"]
        gone = sent(url, "POST", "/api/v1/jobs/clicks/checkpoints", BEARER)
        assert (gone.status, "is not running" in gone.document["error"]["message"]) == (409, True)
        assert sent(url, "POST", "/api/v1/jobs/nobody/checkpoints", BEARER).status == 404
        assert sent(url, "POST", "/api/v1/jobs/..%2F..%2Fetc/checkpoints", BEARER).status == 422
        as_json = {**BEARER, "Content-Type": "application/json"}
        assert sent(url, "POST", SAVEPOINTS, as_json, '{"name": "../x"}').status == 422
        assert sent(url, "POST", SAVEPOINTS, as_json).status == 422
        assert sent(url, "POST", SAVEPOINTS, as_json, b'{"name": \xff').status == 400
        assert sent(url, "POST", SAVEPOINTS, as_json, '{"name": 7}').status == 400
        page = sent(url, "POST", CHECKPOINTS, {**BEARER, "Accept": "text/html"})
        assert (page.status, b"<h1>409</h1>" in page.body) == (409, True)


def test_a_job_is_asked_once_at_a_time(tmp_path: Path) -> None:
    history = running(tmp_path / "home", "orders", 3)
    actions = Actions(f"file://{tmp_path / 'home'}", PATIENCE)
    made: list[int] = []
    first = threading.Thread(target=lambda: made.append(actions.checkpoint("orders")))
    first.start()
    while read_request(history.store) is None:
        pass
    with pytest.raises(CheckpointFailed, match="busy with a request"):
        actions.checkpoint("orders")
    with owned(history):
        first.join()
        assert made == [4]
        assert actions.checkpoint("orders") == 5


def test_an_owner_that_does_not_answer_leaves_no_request_behind(tmp_path: Path) -> None:
    history = running(tmp_path / "home", "orders", 3)
    with pytest.raises(CheckpointFailed, match="did not answer within"):
        Actions(f"file://{tmp_path / 'home'}", 0.1).checkpoint("orders")
    assert read_request(history.store) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "could not switch actions on"), (("--token", "a;b"), "the token is not valid")],
)
def test_actions_need_a_token_that_a_header_can_carry(
    options: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dashboard", "--home", f"file://{tmp_path}", "--port", "0", "--actions", *options]) == 2
    assert said in capsys.readouterr().err
