"""The orders that arrive: one small file a second, twenty seconds of event time each.

Orders are up to fifteen seconds of event time late, within the pipeline's watermark of a minute. So none is dropped,
however the files are grouped into batches, and the table has exactly one right answer.
"""

import json
import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

_SHOPS = ("amsterdam", "bergen", "cadiz", "dublin", "eindhoven", "firenze")
_BEGIN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_STEP = timedelta(seconds=20)
_LATEST_S = 15.0
_ORDERS = 60
_LONG_AFTER = timedelta(days=1)


class Arrivals:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._random = random.Random(2026)
        self.files = 0
        self.orders = 0

    def arrive(self) -> None:
        """The next file, which appears atomically."""
        now = _BEGIN + self.files * _STEP
        self._write([self._order(now) for _ in range(_ORDERS)])

    def end_of_day(self) -> datetime:
        """One order long after all others: it moves the watermark past every window before it. Returns its time."""
        last = _BEGIN + self.files * _STEP + _LONG_AFTER
        self._write([{"at": _rfc3339(last), "shop": _SHOPS[0], "cents": 1}])
        return last

    def _order(self, now: datetime) -> dict[str, object]:
        at = now + timedelta(seconds=self._random.uniform(-_LATEST_S, _STEP.total_seconds()))
        return {"at": _rfc3339(at), "shop": self._random.choice(_SHOPS), "cents": self._random.randrange(100, 20_000)}

    def _write(self, orders: list[dict[str, object]]) -> None:
        hidden = self._directory / f".{self.files:05d}.json"
        hidden.write_text("".join(json.dumps(order) + "\n" for order in orders))
        os.replace(hidden, self._directory / f"{self.files:05d}.json")
        self.files += 1
        self.orders += len(orders)


def _rfc3339(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
