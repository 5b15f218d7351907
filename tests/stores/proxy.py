"""An HTTP proxy in front of a server that misbehaves on demand: it loses requests, answers and halves of bodies, takes
its time, answers by itself, or is not there at all."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.patience import PATIENCE
from tests.stores.processes import free_port

HELD_AT_MOST = 300.0
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class Fate(Enum):
    """What becomes of a request."""

    PASS = "it is answered"
    LOSE_REQUEST = "the connection is closed before the server sees it"
    LOSE_ANSWER = "the server does it, and the connection is closed without an answer"
    HANG = "the server does it, and no answer comes until the proxy is released"
    HOLD = "the server never sees it, and no answer comes until the proxy is released"
    CUT_BODY = "the answer breaks off in the middle"


@dataclass(frozen=True)
class Status:
    """An answer of the proxy's own, as a gateway gives it."""

    code: int
    body: bytes = b""
    after: bool = False
    """The server has done what was asked. Else it never sees the request."""


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    headers: dict[str, str]

    @property
    def is_conditional_put(self) -> bool:
        names = {name.lower() for name in self.headers}
        return self.method == "PUT" and bool(names & {"if-none-match", "x-goog-if-generation-match"})


Judge = Callable[[Seen], Fate | Status]


@dataclass
class Proxy:
    upstream: str
    endpoint: str = ""
    judge: Judge = lambda seen: Fate.PASS
    """Asked for every request; may be replaced at any time."""
    without_headers: frozenset[str] = frozenset()
    """Lower-case names of request headers that the server does not get to see."""
    delay: float = 0.0
    """Seconds before a request is passed on."""
    seen: list[Seen] = field(default_factory=list)
    done: list[Seen] = field(default_factory=list)
    """Requests that the server has carried out."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    """With each request that is done."""
    released: threading.Event = field(default_factory=threading.Event)
    _server: "_Server | None" = None

    def accept(self) -> None:
        """Take connections, at the same port as before."""
        self.released = threading.Event()
        port = urlsplit(self.endpoint).port if self.endpoint else None
        self._server = _Server(self, port or free_port())
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def refuse(self) -> None:
        """Break all connections, and refuse new ones."""
        assert self._server is not None
        self.released.set()
        self._server.end()
        self._server = None

    def wait_until_done(self, method: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: method in {seen.method for seen in self.done}, PATIENCE)

    def release(self) -> None:
        """End what hangs: those connections are closed."""
        held, self.released = self.released, threading.Event()
        held.set()


@contextlib.contextmanager
def proxy_to(upstream: str) -> Iterator[Proxy]:
    proxy = Proxy(upstream)
    proxy.accept()
    try:
        yield proxy
    finally:
        if proxy._server is not None:
            proxy.refuse()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, proxy: Proxy, port: int) -> None:
        super().__init__(("127.0.0.1", port), type("Handler", (_Handler,), {"proxy": proxy}))
        self._connections: set[socket.socket] = set()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self._connections.discard(request)
        super().shutdown_request(request)

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that broke: that is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _serve(self) -> None:
        body = self._body()
        seen = Seen(self.command, self.path, dict(self.headers))
        self.proxy.seen.append(seen)
        fate = self.proxy.judge(seen)
        if isinstance(fate, Status):
            if fate.after and self._forwarded(body)[0] < 300:
                self.proxy.done.append(seen)
            self._answer(fate.code, [("Content-Type", "application/xml")], fate.body)
            return
        released = self.proxy.released
        if fate is Fate.HOLD:
            released.wait(HELD_AT_MOST)
        elif fate is not Fate.LOSE_REQUEST:
            if self.proxy.delay:
                time.sleep(self.proxy.delay)
            status, headers, data = self._forwarded(body)
            if status < 300:
                with self.proxy.changed:
                    self.proxy.done.append(seen)
                    self.proxy.changed.notify_all()
            if fate is Fate.HANG:
                released.wait(HELD_AT_MOST)
            elif fate is Fate.CUT_BODY:
                self._answer(status, headers, data, sent=len(data) // 2)
            elif fate is Fate.PASS:
                self._answer(status, headers, data)
                return
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        parts = urlsplit(self.proxy.upstream)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        try:
            connection.putrequest(self.command, parts.path + self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _HOP_BY_HOP | self.proxy.without_headers:
                    connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, sent: int | None = None) -> None:
        self.send_response_only(status)
        length = str(len(body))
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = value
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])

    def log_message(self, format: str, *args: object) -> None:
        pass
