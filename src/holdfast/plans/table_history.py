"""Which batches of a job a table of the user's own shows, by the table's own history. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.identifiers import BatchId
from holdfast.plans.query_id import is_of_one_job


class HistoryExpired(Exception):
    """The table no longer knows whether it shows batches of the job."""


@dataclass(frozen=True)
class Change:
    """One version of the table."""

    version: int
    before: int | None
    """The version that it was made from, None for the first. A version that restores another one is made from that."""
    query: str | None = None
    """The streaming query that made it, and which batch of that it is; None when something else did."""
    batch: BatchId | None = None


@dataclass(frozen=True)
class Beyond:
    """Batches that the table shows and that are to be taken back."""

    newest: BatchId
    last_good: int | None
    """The version without them, None when there is none."""


@dataclass(frozen=True)
class Shown:
    upto: BatchId | None
    """The newest batch up to the barrier."""
    beyond: Beyond | None
    """What is behind the barrier."""
    of_another_line: bool = False
    """`upto` is under another id of the query: that batch may have other rows on this line."""


def shown(changes: Iterable[Change], query: str, barrier: BatchId) -> Shown:
    """What the table shows of the batches up to `barrier`, and behind it.

    `changes`: the newest version and those that it was made from, newest first, as far as they are kept. Raises
    `HistoryExpired` when those that are kept do not tell.
    """
    newest: BatchId | None = None
    last_good: int | None = None
    upto: BatchId | None = None
    another = False
    change: Change | None = None
    for change in changes:
        if change.query is None or change.batch is None or not is_of_one_job(change.query, query):
            continue
        if change.batch <= barrier:
            upto, another = change.batch, change.query != query
            break
        newest = change.batch if newest is None else max(newest, change.batch)
        last_good = change.before
    else:
        if change is not None and change.before is not None:
            raise HistoryExpired(f"versions before {change.version} have expired")
    return Shown(upto, None if newest is None else Beyond(newest, last_good), another)


def restored_to(changes: Iterable[Change], query: str, recorded: BatchId) -> BatchId | None:
    """The newest batch that the table shows, where it has a record of later ones, up to `recorded`: somebody restored
    an older version, and the sink will skip what that lacks. None when it shows all. -1: it shows none of this line."""
    found = shown(changes, query, recorded)
    if found.upto is None or found.of_another_line:
        return None if found.beyond is not None else BatchId(-1)
    return None if found.beyond is not None or found.upto == recorded else found.upto
