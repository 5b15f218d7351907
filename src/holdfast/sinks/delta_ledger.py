"""The state of a job in a Delta table's log: transaction ids, all of them in every commit of the sink.

    holdfast:<job>          the newest published batch, -1 for none
    holdfast-epoch:<job>    fencing_epoch of the newest run that opened the table
    holdfast-life:<job>     fingerprint of that run's lineage
    holdfast-claim:<job>    fingerprint of that run's claim, 0 when it is not known
    holdfast-record:<job>   number of the newest page of `published_record`, 0 for none

Version 0.1.0 had the first two only, and the lineage in their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.identifiers import BatchId, FencingEpoch, JobName
from holdfast.sinks.protocol import SinkState
from holdfast.sinks.published_record import NO_PAGE

NOTHING = -1


class DeltaLedger(msgspec.Struct, frozen=True):
    life: int
    fencing_epoch: FencingEpoch
    claim: int
    published: int = NOTHING
    page: int = NO_PAGE

    @property
    def newest(self) -> BatchId | None:
        return None if self.published == NOTHING else BatchId(self.published)

    def state(self) -> SinkState:
        return SinkState(self.life, self.fencing_epoch, self.claim or None, self.newest)


def read_ledger(table: Any, job: JobName) -> DeltaLedger | None:
    """None when no run of version 0.2 has opened the table."""
    values = {name: table.transaction_version(app) for name, app in _apps(job).items()}
    if values["life"] is None:
        return None
    return DeltaLedger(**{name: value for name, value in values.items() if value is not None})


def replace(ledger: DeltaLedger, published: int, page: int) -> DeltaLedger:
    return msgspec.structs.replace(ledger, published=published, page=page)


def transactions(job: JobName, ledger: DeltaLedger) -> Mapping[str, int]:
    return {app: getattr(ledger, name) for name, app in _apps(job).items()}


def _apps(job: JobName) -> Mapping[str, str]:
    return {
        "published": f"holdfast:{job}",
        "fencing_epoch": f"holdfast-epoch:{job}",
        "life": f"holdfast-life:{job}",
        "claim": f"holdfast-claim:{job}",
        "page": f"holdfast-record:{job}",
    }
