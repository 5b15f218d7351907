"""Chromium, driven by chromedriver: the few commands of the W3C protocol that these tests need."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.patience import PATIENCE
from tests.stores.processes import free_port

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")


class Browser:
    def __init__(self, base: str) -> None:
        self._base = base

    def open(self, url: str) -> None:
        self._post("url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str) -> Any:
        """Until the script returns something true."""
        ends = time.monotonic() + PATIENCE
        while not (found := self.run(script)):
            assert time.monotonic() < ends, script
            time.sleep(0.05)
        return found

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, scheme: Literal["light", "dark"]) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def picture(self, path: Path) -> None:
        taken = self.devtools("Page.captureScreenshot", {"format": "webp", "quality": 70})
        path.write_bytes(base64.b64decode(taken["data"]))

    def devtools(self, command: str, parameters: Any) -> Any:
        return self._post("goog/cdp/execute", {"cmd": command, "params": parameters})

    def keys(self, text: str) -> None:
        pressed = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self._post("actions", {"actions": [{"type": "key", "id": "keys", "actions": pressed}]})

    def _post(self, command: str, body: Any) -> Any:
        request = urllib.request.Request(f"{self._base}/{command}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)["value"]


@contextmanager
def browser(place: Path) -> Iterator[Browser]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium here: apt-get install chromium chromium-driver")
    # A short path: Chromium makes a socket there. It goes with what Chromium leaves behind.
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as temporaries:
        yield from _driven(place, temporaries)


def _driven(place: Path, temporaries: str) -> Iterator[Browser]:
    assert DRIVER is not None
    port = free_port()
    environment = {**os.environ, "TMPDIR": temporaries}
    with (place / "chromedriver.log").open("wb") as log:
        process = subprocess.Popen([DRIVER, f"--port={port}"], stdout=log, stderr=log, env=environment)
    base = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(base)
        session = _new_session(base, place)
        try:
            yield Browser(f"{base}/session/{session}")
        finally:
            ended = urllib.request.Request(f"{base}/session/{session}", method="DELETE")
            urllib.request.urlopen(ended, timeout=PATIENCE).close()
    finally:
        process.terminate()
        process.wait()


def _wait_until_ready(base: str) -> None:
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            with urllib.request.urlopen(f"{base}/status", timeout=PATIENCE) as answer:
                if json.load(answer)["value"]["ready"]:
                    return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("chromedriver did not start")


def _new_session(base: str, place: Path) -> str:
    arguments = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--hide-scrollbars",
        f"--user-data-dir={place / 'profile'}",
    ]
    options = {"binary": CHROMIUM, "args": arguments}
    body = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}}
    request = urllib.request.Request(f"{base}/session", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return str(json.load(answer)["value"]["sessionId"])
