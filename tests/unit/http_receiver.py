"""A real receiver of webhooks over HTTP, which can be told to fail, to be slow, or to hang."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE


class HttpReceiver:
    """`answers` is asked for the status of each request, in order; it may wait."""

    def __init__(self, answers: Callable[[int], int] = lambda number: 200) -> None:
        self.taken: list[Any] = []
        """The documents that it answered with 200; None for a GET."""
        self._asked = 0
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_GET(self) -> None:
                self._answer(None)

            def _answer(self, document: Any) -> None:
                status = answers(receiver.count())
                receiver.took(status, document)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/services/secret-path"

    def count(self) -> int:
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            return self._asked

    def took(self, status: int, document: Any) -> None:
        with self._changed:
            if status == 200:
                self.taken.append(document)
            self._changed.notify_all()

    def wait_for_requests(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._asked >= count, PATIENCE)

    def wait_for(self, count: int) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.taken) >= count, PATIENCE)
            return list(self.taken)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
