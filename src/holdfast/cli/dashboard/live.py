"""Keeps reading the home while somebody looks, and wakes those who wait for a change."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from holdfast.cli.dashboard.board import Board
from holdfast.cli.dashboard.judging import Judged, judge, worst_first
from holdfast.cli.home_reader import NONSENSE, HomeReader, HomeReading
from holdfast.repository.views import Observation

LOOKED_AT_S = 5.0
"""How often the home is read while a page is open."""
ALONE_S = 30.0
"""How often otherwise."""
_PROGRESS_S = 0.5
"""How often a page shows how far the first reading of the home has come."""
SILENT_S = 15.0
"""A round of reading that takes longer is told of: a home may hang for minutes before it counts as unreachable."""
_CONTENTS_KEPT = 32
_JUDGED_AGAIN_S = 15.0
"""Findings depend on the time, too."""


class Live:
    def __init__(
        self, reader: HomeReader, looked_at_s: float = LOOKED_AT_S, board: Callable[[], Board | None] = lambda: None
    ) -> None:
        """`board` is asked in every round."""
        self._reader = reader
        self._ask_board = board
        self._board: Board | None = None
        self._looked_at_s = looked_at_s
        self._changed = threading.Condition()
        """Guards everything below. Nobody holds it while the home is read."""
        self._version = 0
        self._watchers = 0
        self._over = False
        self._wanted = 0
        """Looks that somebody asked for."""
        self._looked = 0
        """How many of them have been made."""
        self._reading: HomeReading = reader.latest
        self._jobs: dict[str, Judged] = {}
        self._judged_at: dict[str, float] = {}
        self._progress_at = 0.0
        self._round_began: datetime | None = None
        """None between two rounds."""
        reader.on_progress = self._progressed
        self.contents = lru_cache(_CONTENTS_KEPT)(reader.contents)
        """Of a checkpoint, by job and manifest: by shard, bytes and files. Raises what reading it raises."""
        self._thread = threading.Thread(target=self._run, name="holdfast-dashboard", daemon=True)

    def start(self) -> None:
        """Returns at once: a large home takes a while to be read for the first time."""
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def board(self) -> Board | None:
        return self._board

    @property
    def reading(self) -> HomeReading:
        return self._reading

    def jobs(self) -> list[Judged]:
        return worst_first(self._jobs.values())

    def job(self, name: str) -> Judged | None:
        return self._jobs.get(name)

    def version(self) -> int:
        return self._version

    def watch(self, *, begins: bool) -> None:
        """Somebody looks at a page, or no longer does."""
        with self._changed:
            self._watchers += 1 if begins else -1
            self._changed.notify_all()

    def wait_for_change(self, after: int, limit: float) -> int | None:
        """The version when it is newer than `after`; None after `limit` seconds, or at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != after or self._over, limit)
            return self._version if self._version != after and not self._over else None

    def look_again(self, limit: float = 10.0) -> None:
        """Read the home now, and return when that is done, or after `limit` seconds."""
        with self._changed:
            self._wanted += 1
            mine = self._wanted
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._looked >= mine or self._over, limit)

    def silent_since(self) -> datetime | None:
        """Since when the home has not answered, where nobody has called it unreachable yet."""
        began = self._round_began
        late = began is not None and not self._reading.is_first and now() - began > timedelta(seconds=SILENT_S)
        return began if late else None

    @property
    def over(self) -> bool:
        return self._over

    def _run(self) -> None:
        self._refresh()
        while not self._pause():
            self._refresh()

    def _pause(self) -> bool:
        """True at the end. A first watcher shortens the pause."""
        begun = time.monotonic()
        with self._changed:
            while not self._over:
                pause = self._looked_at_s if self._watchers else ALONE_S
                left = begun + pause - time.monotonic()
                if left <= 0 or self._wanted > self._looked:
                    return False
                self._changed.wait(left)
            return True

    def _refresh(self) -> None:
        wanted = self._wanted
        self._round_began = now()
        reading, jobs = self._judge(self._reader.refresh())
        self._round_began = None
        board = self._ask_board()
        before = (_fingerprint(self._reading), {name: job.fingerprint for name, job in self._jobs.items()})
        after = (_fingerprint(reading), {name: job.fingerprint for name, job in jobs.items()})
        with self._changed:
            self._reading, self._jobs, self._looked = reading, jobs, wanted
            if before != after or board != self._board:
                self._version += 1
            self._board = board
            self._changed.notify_all()

    def _progressed(self) -> None:
        """Called by the reader, between two jobs of its first round."""
        if time.monotonic() - self._progress_at < _PROGRESS_S:
            return
        self._progress_at = time.monotonic()
        with self._changed:
            self._reading = self._reader.latest
            self._version += 1
            self._changed.notify_all()

    def _judge(self, reading: HomeReading) -> tuple[HomeReading, dict[str, Judged]]:
        """A job that cannot be judged hides no other one."""
        jobs, unreadable = {}, dict(reading.unreadable)
        for name in reading.jobs:
            try:
                jobs[name] = self._judged(name, reading)
            except NONSENSE as error:
                unreadable[name] = f"what its home says makes no sense: {error}"
        return replace(reading, unreadable=unreadable), jobs

    def _judged(self, name: str, reading: HomeReading) -> Judged:
        seen, known, now = reading.jobs[name], self._jobs.get(name), time.monotonic()
        same = known is not None and known.seen.state is seen.state and _told(known.seen) == _told(seen)
        if known is not None and same and now - self._judged_at[name] < _JUDGED_AGAIN_S:
            return known
        self._judged_at[name] = now
        return judge(seen)


def _fingerprint(reading: HomeReading) -> tuple[object, ...]:
    return (reading.at is None, reading.failure, reading.failing_since, tuple(reading.unreadable))


def _told(seen: Observation) -> tuple[object, ...]:
    return (seen.alive, seen.report, seen.verified)


def now() -> datetime:
    return datetime.now(UTC)
