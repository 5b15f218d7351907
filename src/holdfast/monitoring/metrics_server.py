"""Serves metrics over HTTP: `GET /metrics`, and nothing else."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from holdfast.errors import InvalidSettings
from holdfast.repository.views import Observation


class MetricsServer:
    def __init__(self, address: str, port: int, read: Callable[[], list[Observation]]) -> None:
        """Raises `InvalidSettings` when it cannot listen there."""
        exposed = metrics_of(read)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = exposed() if found else b"metrics are at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """A scrape every few seconds is no event."""

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except OSError as error:
            raise InvalidSettings.of(
                "metrics_port", port, f"could not listen on {address}:{port}: {error.strerror}", hint="another port"
            ) from error
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="holdfast-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def metrics_of(read: Callable[[], list[Observation]]) -> Callable[[], bytes]:
    try:
        from holdfast.monitoring.metrics import JobsCollector, exposition
    except ImportError as error:
        raise InvalidSettings(
            "could not serve metrics: prometheus-client is missing", hint="pip install 'holdfast-spark[metrics]'"
        ) from error
    collector = JobsCollector(read)
    return lambda: exposition(collector)
