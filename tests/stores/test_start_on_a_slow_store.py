"""How many requests a start makes, and how many of them wait for one another: on a slow store only these count."""

import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.identifiers import AttemptId, BatchId, CheckpointId, FencingEpoch, Sequence
from holdfast.repository import recent
from holdfast.repository.chain import read_chain
from holdfast.repository.entries import CheckpointStarted
from holdfast.repository.journal import entry_key, read_entries
from holdfast.repository.recent import copy_recent
from holdfast.storage.urls import open_store
from tests.stores.proxy import Fate, Proxy, Seen, proxy_to
from tests.stores.s3 import BUCKET, S3Server
from tests.unit.chained import chained

ENTRIES = 500


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[Proxy]:
    with proxy_to(s3.endpoint) as proxy:
        yield proxy


def write_history(directory: Path) -> None:
    """Straight into the server's directory: 500 appends would take their time."""
    directory.mkdir(parents=True)
    entries = [
        CheckpointStarted(
            sequence=Sequence(number),
            attempt=AttemptId(f"attempt-{number}"),
            at=datetime(2026, 1, 1, tzinfo=UTC),
            fencing_epoch=FencingEpoch(1),
            id=CheckpointId(number),
            checkpoint_kind="checkpoint",
            name=None,
            barrier_batch_id=BatchId(number),
        )
        for number in range(1, ENTRIES + 1)
    ]
    for stored in chained(entries):
        (directory / entry_key(stored.sequence).removeprefix("journal/")).write_bytes(stored.data)


class AllAtOnce:
    """Answers no entry before `wanted` of them have been asked for at the same time."""

    def __init__(self, wanted: int) -> None:
        self._missing = iter(range(wanted - 1, -1, -1))
        self._together = threading.Event()
        self.met = False

    def __call__(self, seen: Seen) -> Fate:
        if "list-type" in seen.path or recent.KEY in seen.path:
            return Fate.PASS
        if next(self._missing, None) == 0:
            self.met = True
            self._together.set()
        if not self._together.wait(150):
            self._together.set()
        return Fate.PASS


def test_a_journal_of_500_entries_is_one_listing_and_500_requests_of_which_50_run_at_once(
    s3: S3Server, proxy: Proxy
) -> None:
    write_history(s3.directory / BUCKET / "slow-start" / "job" / "journal")
    proxy.judge = together = AllAtOnce(50)
    entries = list(read_entries(open_store(s3.home("slow-start", proxy.endpoint), deadline=200).scoped("job")))
    assert [entry.sequence for entry in entries] == list(range(1, ENTRIES + 1))
    assert together.met
    kinds = Counter("list" if "list-type" in seen.path else seen.method for seen in proxy.seen)
    assert kinds == {"list": 1, "GET": ENTRIES + 2}, "one more for the copies, which are not there, one for the end"


def test_with_copies_it_is_one_listing_and_three_requests(s3: S3Server, proxy: Proxy) -> None:
    write_history(s3.directory / BUCKET / "slow-start-copied" / "job" / "journal")
    store = open_store(s3.home("slow-start-copied", proxy.endpoint)).scoped("job")
    whole = read_chain(store)
    assert copy_recent(store, whole.entries, ENTRIES)
    before = len(proxy.seen)
    assert read_chain(store) == whole
    kinds = Counter("list" if "list-type" in seen.path else seen.method for seen in proxy.seen[before:])
    assert kinds == {"list": 1, "GET": 3}, "the copies, the newest entry, the end"
