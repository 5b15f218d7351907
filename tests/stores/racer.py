"""One of several processes that fight for a journal: claims the job, appends a little, claims again when fenced.

    python -m tests.stores.racer HOME ENTRIES MEETINGS

Races until the journal has that many entries, then prints what became of its attempts as JSON: each of them is known as
won or lost. Before each of its first MEETINGS claims it prints "ready" and waits for a line: so often all of them want
the same place, however the machine shares out its time.
"""

import json
import random
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from holdfast.errors import Fenced, ObjectNotFound, OutcomeUnknown, StorageError
from holdfast.identifiers import AttemptId
from holdfast.repository.chain import read_stored
from holdfast.repository.entries import QueryRestarted, RunStarted, Stamp
from holdfast.repository.entry_bytes import StoredEntry
from holdfast.repository.journal import Journal, entry_key
from holdfast.repository.ownership import current_process
from holdfast.repository.state import JobState
from holdfast.storage.interface import ObjectStore
from holdfast.storage.urls import open_store

JOB = "raced"
SETTLING = 50
LONGEST = 30
"""Entries of one owner, its claim included."""


class Racer:
    def __init__(self, store: ObjectStore, entries: int, meetings: int) -> None:
        self._store = store
        self._entries = entries
        self._meetings = iter(range(meetings))
        self._state = JobState()
        self._tip: StoredEntry | None = None
        self._attempts: list[AttemptId] = []
        self.won: list[str] = []
        self.lost: list[str] = []
        self.unknown = 0

    def race(self) -> None:
        while self._state.head < self._entries:
            self._catch_up()
            if next(self._meetings, None) is not None:
                wait_for_the_others()
            self._own_for_a_while(Journal(self._store, new_attempt=self._new_attempt, now=lambda: datetime.now(UTC)))

    def _own_for_a_while(self, journal: Journal) -> None:
        journal.state, journal._tip = self._state, self._tip
        owns = self._decided(journal, lambda: journal.claim(run_started))
        # Whoever loses has more to do than whoever wins: without an end, the first owner would stay it.
        for _ in range(random.randrange(LONGEST)):
            if owns and self._state.head < self._entries:
                owns = self._decided(journal, lambda: journal.append(entry_of(journal)))
        self._tip = journal._tip

    def _catch_up(self) -> None:
        """Read what the others appended; the journal's own `load` would read everything from the start."""
        while True:
            key = entry_key(self._state.head + 1)
            try:
                self._tip = read_stored(self._store, key)
                self._state = self._state.after(self._tip.entry)
            except ObjectNotFound:
                return
            except StorageError:
                continue

    def _decided(self, journal: Journal, step: Callable[[], object]) -> bool:
        """Take the step, know what became of it, and say whether this racer is still the owner."""
        self._attempts = []
        still_owner = False
        try:
            step()
            still_owner = True
        except OutcomeUnknown:
            self.unknown += 1
            self._settle(journal)
        except (Fenced, StorageError):
            pass
        self._state = journal.state
        # It holds an entry if, and only if, that is known to stand. A claim may try several places.
        newest = self._state.sequences[-1][1].attempt if self._state.sequences else None
        for attempt in self._attempts:
            (self.won if attempt == newest else self.lost).append(attempt)
        return still_owner

    def _settle(self, journal: Journal) -> None:
        for _ in range(SETTLING):
            try:
                journal.settle()
                return
            except OutcomeUnknown:
                continue
            except Fenced:
                return
        raise AssertionError("an append stayed unknown")

    def _new_attempt(self) -> AttemptId:
        self._attempts.append(AttemptId(uuid.uuid4().hex))
        return self._attempts[-1]


def run_started(stamp: Stamp) -> RunStarted:
    return RunStarted(
        **stamp,
        lineage="race",
        process=current_process(),
        heartbeat_s=5,
        work="/nowhere",
        holdfast="race",
    )


def entry_of(journal: Journal) -> Callable[[Stamp], QueryRestarted]:
    return lambda stamp: QueryRestarted(
        **stamp,
        cause="race",
        message="an entry like any other",
        attempt_number=1,
    )


def wait_for_the_others() -> None:
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()


def main() -> None:
    home, entries, meetings = sys.argv[1:]
    racer = Racer(open_store(home).scoped(JOB), int(entries), int(meetings))
    racer.race()
    print(json.dumps({"won": racer.won, "lost": racer.lost, "unknown": racer.unknown}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
