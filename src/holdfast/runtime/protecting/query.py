"""Somebody else's query, in the place of a run's own: nothing starts or stops it, and it is never seen to end."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Many
from datetime import datetime

from holdfast.checkpoint.query_facts import described
from holdfast.identifiers import BatchId
from holdfast.job_log import log
from holdfast.plans.replay import Repeat
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.clock import Clock
from holdfast.runtime.own_writer import Taken
from holdfast.runtime.ports import BatchReports, RunDirectory, Supervisor
from holdfast.runtime.query_end import QueryEnd
from holdfast.sinks.protocol import SinkContext, SinkState
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.reading import BatchRead
from holdfast.sources.restorable import KeptSource
from holdfast.workdir.barriers import newest_barrier
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.query_record import held_facts

_REMOTE_LOOKS_S = 2.0
"""Each look at a directory on an object store is a few requests."""


class ProtectedQuery:
    """A `Query`."""

    application_id: str | None = None
    sink = None
    batches_retained: int | None = None

    def __init__(self, files: WorkDirectory, query: str, clock: Clock) -> None:
        self.files = files
        self.id = query
        self._clock = clock
        self._ship: Callable[[], None] = lambda: None
        self._stopped = False

    def ships_with(self, ship: Callable[[], None]) -> None:
        """Called when the run stops: what is planned by then is shipped."""
        self._ship = ship

    def commits_told(self) -> int | None:
        if not self.files.abilities.remote or self._stopped:
            return None
        return int(self._clock.monotonic() / _REMOTE_LOOKS_S)

    def stop(self) -> None:
        """This run no longer watches it."""
        if not self._stopped:
            self._stopped = True
            self._ship()

    def end(self) -> QueryEnd | None:
        return None

    def describe(self) -> dict[str, str]:
        try:
            barrier = newest_barrier(self.files)
            facts = described(held_facts(self.files, barrier)) if barrier is not None else {}
        except OSError as error:
            log.debug("could not describe the query: %s", error)
            facts = {}
        return {**facts, "query": self.id}

    def batch_reports(self) -> BatchReports | None:
        return None

    def look_ahead(self, ahead: Ahead) -> None:
        pass

    def preflight(self, directory: RunDirectory, barrier: BatchId | None) -> bool:
        return False

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        return None

    def missing_input(self, paths: Many[str]) -> tuple[str, ...] | None:
        return None

    def kafka_inputs(self) -> tuple[KafkaInput, ...]:
        return ()

    def kept_sources(self) -> tuple[KeptSource, ...]:
        return ()

    def batches_read(self, since: datetime | None) -> tuple[BatchRead, ...]:
        return ()

    def cores(self) -> int | None:
        return None

    def skipped_input(self) -> tuple[str, ...]:
        return ()

    def own_writer(self, directory: RunDirectory, *, new_line: bool = False) -> Taken | None:
        return None

    def plans_refusal(self) -> str | None:
        return None

    def repeat(self, directory: RunDirectory, steps: Many[Repeat]) -> None:
        raise _not_ours()

    def open_sink(self, context: SinkContext) -> None:
        raise _not_ours()

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        raise _not_ours()


def _not_ours() -> AssertionError:
    return AssertionError("the query is somebody else's: holdfast only watches its directory")
