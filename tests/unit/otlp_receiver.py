"""A collector: takes OTLP over HTTP and decodes it."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.patience import PATIENCE


class OtlpReceiver:
    def __init__(self) -> None:
        self._taken = threading.Condition()
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._take(self.path, ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def _take(self, path: str, request: ExportTraceServiceRequest) -> None:
        assert path == "/v1/traces"
        with self._taken:
            for group in request.resource_spans:
                self.resources.append({each.key: each.value.string_value for each in group.resource.attributes})
                for scope in group.scope_spans:
                    self.spans += scope.spans
            self._taken.notify_all()

    def wait_for(self, name: str) -> Span:
        """The first span with this name."""
        with self._taken:
            assert self._taken.wait_for(lambda: any(span.name == name for span in self.spans), PATIENCE), name
            return next(span for span in self.spans if span.name == name)

    def below(self, parent: Span) -> list[Span]:
        found = [span for span in self.spans if span.parent_span_id == parent.span_id]
        return sorted(found, key=lambda span: (span.start_time_unix_nano, span.end_time_unix_nano))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def facts(span: Span) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
