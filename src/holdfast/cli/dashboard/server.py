"""The HTTP server: routes, headers that keep a page to itself, and the stream of changes."""

import gzip
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from holdfast.cli.dashboard import action_requests, api
from holdfast.cli.dashboard.action_requests import Action, action_at
from holdfast.cli.dashboard.actions import Actions, status_of
from holdfast.cli.dashboard.guard import COOKIE, Guard
from holdfast.cli.dashboard.live import Live, now
from holdfast.cli.dashboard.pages.checkpoint import checkpoint_page
from holdfast.cli.dashboard.pages.compare import Contents, compare_page
from holdfast.cli.dashboard.pages.doctor import doctor_page, doctor_report
from holdfast.cli.dashboard.pages.job import job_page
from holdfast.cli.dashboard.pages.jobs import jobs_page
from holdfast.cli.dashboard.pages.layout import collected_page, error_page, iso, loading_page, path_to, refused_page
from holdfast.cli.dashboard.spans import chosen_span
from holdfast.cli.home_reader import NONSENSE
from holdfast.cli.output import print_message
from holdfast.errors import HoldfastError
from holdfast.finding import Finding
from holdfast.identifiers import CheckpointId
from holdfast.repository.documents import CheckpointDetail
from holdfast.repository.views import checkpoint_detail

_HTML = "text/html; charset=utf-8"
_JSON = "application/json"
_STATIC = {
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SOON = (("Retry-After", "2"),)
_STREAM_BEAT_S = 10.0
_WORTH_COMPRESSING = 1000
_LARGEST_TEXT = 4 * 2**20

Examine = Callable[[str], tuple[Finding, ...]]


@dataclass(frozen=True)
class Served:
    status: int
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Site:
    """What is served."""

    live: Live
    guard: Guard
    metrics: Callable[[], bytes] | None
    examine: Examine
    actions: Actions | None = None
    """None where they are off."""

    def answer(self, path: str, query: dict[str, list[str]], word: str | None = None) -> Served:
        """`word` is for the forms of a reader who may act."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match parts:
            case [""]:
                return self._page(jobs_page(self.live.reading, self.live.jobs(), now(), self.live.board))
            case ["static", name] if name in _STATIC:
                return Served(200, _STATIC[name], static(name))
            case ["metrics"] if self.metrics is not None:
                return Served(200, "text/plain; version=0.0.4; charset=utf-8", self.metrics())
            case ["doctor"]:
                return self._page(doctor_page(self.live.reading, now()))
            case ["api", "v1", *rest]:
                return self._api(rest, query)
            case ["jobs", name, *rest]:
                return self._job(name, rest, query, word)
        return self._missing("There is no such page.")

    def examined(self, body: bytes) -> Served:
        text = "".join(parse_qs(body.decode(errors="replace"), max_num_fields=4).get("text", []))
        try:
            report = doctor_report(self.examine(text))
        except HoldfastError as error:
            return self._failed(422, error)
        return self._page(doctor_page(self.live.reading, now(), report))

    def act(self, action: Action, *, as_page: bool) -> Served:
        """Waits for the job: what it did, or why it did not."""
        assert self.actions is not None
        try:
            if action.kind == "collect":
                return self._collected(action.job, self.actions.collect(action.job), as_page=as_page)
            id = _checkpoint_of(self.actions, action)
        except HoldfastError as error:
            return self.failed(status_of(error), error, as_page=as_page)
        self.live.look_again()
        place = f"{path_to(action.job)}/checkpoints/{id}"
        if action.kind == "drop" and not as_page:
            return Served(200, _JSON, msgspec.json.encode({"name": action.name, "checkpoint": id}))
        if as_page:
            return Served(303, _HTML, b"", (("Location", path_to(action.job) if action.kind == "drop" else place),))
        made = self._api(["jobs", action.job, "checkpoints", str(id)], {})
        body = made.body if made.status == 200 else msgspec.json.encode({"id": id})
        return Served(201, _JSON, body, (("Location", f"/api/v1{place}"),))

    def _collected(self, job: str, said: str, *, as_page: bool) -> Served:
        if as_page:
            return self._page(collected_page(self.live.reading, job, said, now()))
        return Served(200, _JSON, msgspec.json.encode({"job": job, "message": said}))

    def failed(self, status: int, error: HoldfastError, *, as_page: bool) -> Served:
        if as_page:
            return self._failed(status, error)
        return Served(status, _JSON, msgspec.json.encode(api.error(status, error.message, error.hint)))

    def _failed(self, status: int, error: HoldfastError) -> Served:
        message = f"{error.message}. {error.hint or ''}"
        return Served(status, _HTML, error_page(self.live.reading, now(), status, message).encode())

    def _job(self, name: str, rest: list[str], query: dict[str, list[str]], word: str | None) -> Served:
        job = self.live.job(name)
        if job is None and self.live.reading.is_first:
            return Served(503, _HTML, loading_page(self.live.reading, now()).encode(), _SOON)
        if job is None:
            return self._missing(f"There is no job {name!r} in this home.")
        match rest:
            case []:
                span = chosen_span(_text(query, "from"), _text(query, "to"))
                last, board = _number(query, "last"), self.live.board
                return self._page(job_page(self.live.reading, job, now(), word, last, span, board))
            case ["checkpoints", id] if id.isdigit():
                found = checkpoint_detail(job.seen, int(id))
                if found is not None:
                    return self._page(checkpoint_page(self.live.reading, job, found, now()))
            case ["compare"]:
                a, b = (checkpoint_detail(job.seen, _number(query, name) or 0) for name in ("a", "b"))
                if a is not None and b is not None:
                    return self._page(compare_page(self.live.reading, job, (a, b), self._contents(name, a, b), now()))
        return self._missing("There is no such checkpoint.")

    def _contents(self, job: str, a: CheckpointDetail, b: CheckpointDetail) -> tuple[Contents, Contents] | str:
        """The only page for which the home is read on request, once per checkpoint."""
        if a.manifest is None or b.manifest is None:
            return "one of them was not completed"
        try:
            return self.live.contents(job, a.manifest), self.live.contents(job, b.manifest)
        except HoldfastError as error:
            return error.message

    def _api(self, rest: list[str], query: dict[str, list[str]]) -> Served:
        found: Any = None
        match rest:
            case ["openapi.json"]:
                found = api.openapi()
            case ["jobs"]:
                found = api.jobs(self.live.reading.home, self.live.jobs())
            case ["jobs", name, *below]:
                job = self.live.job(name)
                found = None if job is None else api.job_document(job, below, _number(query, "limit"))
        if rest[:1] == ["jobs"] and self.live.reading.is_first:
            return Served(503, _JSON, msgspec.json.encode(api.still_reading(self.live.reading)), _SOON)
        if found is None:
            return Served(404, _JSON, msgspec.json.encode(api.error(404, "there is no such job or checkpoint")))
        return Served(200, _JSON, msgspec.json.encode(found))

    def _page(self, text: str) -> Served:
        return Served(200, _HTML, text.encode())

    def _missing(self, message: str) -> Served:
        return Served(404, _HTML, error_page(self.live.reading, now(), 404, message).encode())


def _checkpoint_of(actions: Actions, action: Action) -> CheckpointId:
    name = action.name or ""
    match action.kind:
        case "savepoint":
            return actions.savepoint(action.job, name)
        case "drop":
            return actions.drop(action.job, name)
        case _:
            return actions.checkpoint(action.job)


def static(name: str) -> bytes:
    return files(__package__).joinpath("static", name).read_bytes()


def _number(query: dict[str, list[str]], name: str) -> int | None:
    given = _text(query, name)
    return int(given) if given.isdigit() and len(given) < 19 else None


def _text(query: dict[str, list[str]], name: str) -> str:
    return query.get(name, [""])[0]


class DashboardServer:
    def __init__(self, address: str, port: int, site: Site) -> None:
        """Raises `OSError` when it cannot listen there."""
        self._server = ThreadingHTTPServer((address, port), _handler_for(site))
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="holdfast-http", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class PageHandler(BaseHTTPRequestHandler):
    site: Site
    """Set by the class that `_handler_for` makes."""
    protocol_version = "HTTP/1.1"
    timeout = 60
    server_version = "holdfast"
    sys_version = ""

    def do_GET(self) -> None:
        path, query = self._asked()
        if not self._allowed(query):
            return
        if "token" in query and self.site.guard.token is not None:
            self._enter(path)
        elif path == "/api/v1/stream":
            self._stream()
        else:
            guard = self.site.guard
            self._send(self._answered(path, query, guard.form_word if guard.may_act(self._names()) else None))

    def _answered(self, path: str, query: dict[str, list[str]], word: str | None) -> Served:
        try:
            return self.site.answer(path, query, word)
        except NONSENSE as error:
            message = f"what the home says cannot be shown: {error}"
            return self.site.failed(500, HoldfastError(message), as_page=not path.startswith("/api/"))

    def do_POST(self) -> None:
        path, _ = self._asked()
        length = self.headers.get("Content-Length", "")
        self.close_connection = True
        if not self._allowed({}):
            return
        action = action_at(path)
        largest = _LARGEST_TEXT if action is None else action_requests.LARGEST
        if action is None and path != "/doctor":
            self._refuse(405, "there is nothing to post to here")
        elif not length.isdigit() or int(length) > largest:
            self._refuse(413, f"this takes a body of up to {largest} bytes, with its length")
        elif action is None:
            self._send(self.site.examined(self.rfile.read(int(length))))
        else:
            self._act(action, self.rfile.read(int(length)))

    def _act(self, action: Action, body: bytes) -> None:
        as_page = "text/html" in self.headers.get("Accept", "")
        try:
            action = action_requests.with_body(action, self.headers.get("Content-Type", ""), body)
        except HoldfastError as error:
            self._send(self.site.failed(400, error, as_page=as_page))
            return
        refused = self.site.guard.action_refusal(self._names(), action.word)
        if refused is not None:
            self._refuse(*refused)
            return
        print_message(f"{self.client_address[0]} asks job {action.job} to {action.words}")
        self._send(self.site.act(action, as_page=as_page))

    def _asked(self) -> tuple[str, dict[str, list[str]]]:
        parts = urlsplit(self.path)
        return parts.path, parse_qs(parts.query, max_num_fields=20)

    def _allowed(self, query: dict[str, list[str]]) -> bool:
        given = query.get("token", [None])[0]
        refused = self.site.guard.refusal(self.command, self._names(), given)
        if refused is not None:
            self._refuse(*refused)
        return refused is None

    def _names(self) -> dict[str, str]:
        """The headers. One that comes twice has no value that could be trusted."""
        twice = {name for name, count in Counter(map(str.title, self.headers.keys())).items() if count > 1}
        return {name.title(): value for name, value in self.headers.items() if name.title() not in twice}

    def _refuse(self, status: int, message: str) -> None:
        if self.command == "GET" and "text/html" in self.headers.get("Accept", ""):
            self._send(Served(status, _HTML, refused_page(status, message).encode()))
        else:
            self._send(Served(status, _JSON, msgspec.json.encode(api.error(status, message))))

    def _enter(self, path: str) -> None:
        """The token moves from the address, which others may see, to a cookie, which scripts cannot read."""
        cookie = f"{COOKIE}={self.site.guard.token}; HttpOnly; SameSite=Strict; Path=/"
        self._send(Served(303, _HTML, b"", (("Location", path), ("Set-Cookie", cookie))))

    def _send(self, answer: Served) -> None:
        self.send_response(answer.status)
        for name, value in (*_HEADERS.items(), *answer.headers):
            self.send_header(name, value)
        body = answer.body
        if len(body) > _WORTH_COMPRESSING and "gzip" in self.headers.get("Accept-Encoding", ""):
            body = gzip.compress(body, 5)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Vary", "Accept-Encoding")
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self) -> None:
        """Server-sent events: the number of each change, and a comment now and then that shows that we live."""
        self.close_connection = True
        self.send_response(200)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        version = self.site.live.version()
        self.site.live.watch(begins=True)
        try:
            self.wfile.write(f"event: hello\ndata: {version}\n\n".encode())
            while not self.site.live.over:
                changed = self.site.live.wait_for_change(version, _STREAM_BEAT_S)
                version = version if changed is None else changed
                silent = self.site.live.silent_since()
                alive = f"event: alive\ndata: {iso(silent) if silent else ''}\n\n"
                said = alive if changed is None else f"event: changed\ndata: {changed}\n\n"
                self.wfile.write(said.encode())
        except OSError:
            pass  # the reader has gone
        finally:
            self.site.live.watch(begins=False)

    def log_message(self, *_: object) -> None:
        """A page that is open asks every few seconds."""


def _handler_for(served: Site) -> type[PageHandler]:
    return type("SiteHandler", (PageHandler,), {"site": served})
