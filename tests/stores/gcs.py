"""A Google Cloud Storage emulator with preconditions on generations; see gcs_emulator/main.go."""

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.stores.processes import answers, free_port, installed, required, running

SOURCE = Path(__file__).parent / "gcs_emulator"
BUCKET = "holdfast"
TOKEN = "ya29.bearer-of-the-test"


@dataclass(frozen=True)
class GcsServer:
    endpoint: str

    def home(self, path: str = "", endpoint: str | None = None) -> str:
        return f"gs://{BUCKET}/{path}?endpoint={endpoint or self.endpoint}"

    @property
    def environment(self) -> dict[str, str]:
        return {"GOOGLE_BEARER_TOKEN": TOKEN}


@contextlib.contextmanager
def gcs_server(directory: Path) -> Iterator[GcsServer]:
    go = required("go")
    sources = b"".join(path.read_bytes() for path in [*sorted(SOURCE.rglob("*.go")), SOURCE / "go.sum"])
    name = f"gcs-emulator-{hashlib.sha256(sources).hexdigest()[:12]}"
    built = installed(name, lambda to: [go, "build", "-buildvcs=false", "-o", str(to / "gcs-emulator"), "."], SOURCE)
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with running([str(built / "gcs-emulator"), str(port), BUCKET], directory / "gcs.log", answers(endpoint)):
        yield GcsServer(endpoint)
