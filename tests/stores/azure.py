"""Azurite, Microsoft's emulator of Azure Blob Storage."""

import base64
import contextlib
import hashlib
import hmac
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from tests.patience import PATIENCE
from tests.stores.processes import answers, free_port, installed, required, running

VERSION = "3.33.0"
CONTAINER = "holdfast"
ACCOUNT = "testaccount"
ACCOUNT_KEY = base64.b64encode(b"the account's secret of a test server").decode()


@dataclass(frozen=True)
class AzureServer:
    endpoint: str

    def home(self, path: str = "", endpoint: str | None = None) -> str:
        return f"az://{CONTAINER}/{path}?account={ACCOUNT}&endpoint={endpoint or self.endpoint}"

    @property
    def environment(self) -> dict[str, str]:
        return {"AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY}


@contextlib.contextmanager
def azure_server(directory: Path) -> Iterator[AzureServer]:
    node, npm, port = required("node"), required("npm"), free_port()
    flags = ["--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=optional", "--loglevel=error"]
    modules = installed(
        f"azurite-{VERSION}", lambda to: [npm, "install", "--prefix", str(to), *flags, f"azurite@{VERSION}"]
    )
    main = modules / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    command = [node, str(main), "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory)]
    command += ["--silent", "--skipApiVersionCheck", "--disableProductStyleUrl"]
    endpoint = f"http://127.0.0.1:{port}"
    accounts = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with running(command, directory / "azurite.log", answers(endpoint), accounts):
        server = AzureServer(f"{endpoint}/{ACCOUNT}")
        _create_container(server)
        yield server


def _create_container(server: AzureServer) -> None:
    """The one request that holdfast never makes, signed by hand."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    to_sign = "PUT\n\n\n\n\n\n\n\n\n\n\n\n" + canonical + resource
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), to_sign.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{server.endpoint}/{CONTAINER}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=PATIENCE).close()
