"""docs/images: every page of the dashboard over a made-up home, in light, dark and on a phone.

.venv/bin/python -m scripts.screenshots
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from holdfast.repository.last_verified import note_verified
from tests.dashboard.homes import dashboard, failing, lag_of, lost, running
from tests.dashboard.owners import GUARD, TOKEN
from tests.dashboard.webdriver import Browser, browser

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PAGES = {
    "jobs": "/",
    "job": "/jobs/orders",
    "failing-job": "/jobs/payments",
    "checkpoint": "/jobs/orders/checkpoints/40",
    "failed-checkpoint": "/jobs/payments/checkpoints/26",
    "compare": "/jobs/orders/compare?a=1&b=40",
    "doctor": "/doctor",
}
LOOKS: tuple[tuple[str, int, Literal["light", "dark"]], ...] = (
    ("light", 1280, "light"),
    ("dark", 1280, "dark"),
    ("phone", 390, "dark"),
)
TALLEST = 1800


def take(driven: Browser, url: str, to: Path) -> None:
    for name, path in PAGES.items():
        for look, width, scheme in LOOKS:
            driven.scheme(scheme)
            driven.size(width, 900)
            driven.open(url + path)
            if path != "/doctor":
                driven.wait_for("return document.getElementById('live').textContent === 'live'")
            height = int(driven.run("return document.documentElement.scrollHeight"))
            driven.size(width, min(height, TALLEST))
            driven.picture(to / f"{name}-{look}.webp")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        orders = running(home, "orders", lag=lag_of((1_100, 4, 100)))
        note_verified(orders.store, orders.state().retained(), datetime.now(UTC) - timedelta(hours=9), {40})
        failing(home)
        lost(home)
        with browser(Path(scratch)) as driven, dashboard(home, GUARD) as url:
            driven.open(f"{url}/?token={TOKEN}")
            take(driven, url, IMAGES)


if __name__ == "__main__":
    main()
