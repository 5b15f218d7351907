"""A Structured Streaming query behind the runtime's `Query` port."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from holdfast.checkpoint.compatibility import as_it_will_run
from holdfast.checkpoint.query_facts import QueryFacts, described
from holdfast.coordination.headroom import SETTING as RETENTION
from holdfast.errors import Fenced, HoldfastError, Incompatible, InvalidSettings
from holdfast.identifiers import BatchId, JobName
from holdfast.job_log import about, about_the_same, log, phase
from holdfast.plans.replay import Repeat
from holdfast.runtime.ahead import Ahead
from holdfast.runtime.own_writer import Taken, ours
from holdfast.runtime.ports import BatchReports, KeepPlan, RunDirectory, Supervisor
from holdfast.runtime.query.causes import StartFailed, failure_of_text
from holdfast.runtime.query.supervision import ending_of
from holdfast.runtime.query_end import AS_ASKED, EndedBy, QueryEnd
from holdfast.runtime.recovery.query_fit import refusal, require_compatible, tell
from holdfast.runtime.sources.asking import by_brokers
from holdfast.runtime.sources.source_check import SourceCheck, positions_at
from holdfast.settings import RunSettings, seconds
from holdfast.sinks import ledger
from holdfast.sinks.protocol import Sink, SinkContext, SinkState, Step
from holdfast.sources.kafka_client import is_installed
from holdfast.sources.kafka_input import KafkaInput
from holdfast.sources.kafka_kept import KafkaKept
from holdfast.sources.reading import BatchRead
from holdfast.sources.restorable import KeptSource
from holdfast.spark import object_work
from holdfast.spark.callbacks import close_callback, port_of_this_callback
from holdfast.spark.checkpoint_files import files_of
from holdfast.spark.failure_text import exception_text, failure_text
from holdfast.spark.finished_batches import finished_batches
from holdfast.spark.held_plans import HeldPlans, plans_refusal
from holdfast.spark.input_files import missing_files
from holdfast.spark.kafka_inputs import kafka_inputs
from holdfast.spark.kafka_progress import batches_read
from holdfast.spark.kept_sources import kept_places
from holdfast.spark.looking_ahead import PlaceAhead, refusal_ahead, refusal_of_writer
from holdfast.spark.query_facts import facts_of, frame_and_mode
from holdfast.spark.repeating import repeat_batches
from holdfast.spark.sink_position import SinkPosition
from holdfast.spark.writer_position import taken_by
from holdfast.storage.durable import storage_errors
from holdfast.workdir.factory import work_directory
from holdfast.workdir.interface import WorkDirectory
from holdfast.workdir.query_record import held_facts, write_record

# A streaming DataFrame, or the user's own DataStreamWriter.
Built: TypeAlias = Any


class SparkQuery:
    """Runs what the user's function built. `sink` is None when that is the user's own DataStreamWriter."""

    def __init__(
        self,
        spark: SparkSession,
        job: JobName,
        built: Built,
        sink: Sink | None,
        settings: RunSettings,
        step: Step,
        sink_position: Callable[[], int | None] | None = None,
    ) -> None:
        """`sink_position` says the newest batch that a writer of the user's own has written."""
        self._spark = spark
        # Read once: a run may take its last checkpoint after the JVM has gone.
        self._application_id = str(spark.sparkContext.applicationId)
        self._job = job
        self._built = built
        self._sink = sink
        self._settings = settings
        self._step = step
        self._sink_position = None if sink_position is None else SinkPosition(sink_position)
        self._kafka = kafka_inputs(frame_and_mode(built, settings.output_mode)[0])
        self._kept = self._kept_sources(frame_and_mode(built, settings.output_mode)[0])
        self._source_check = SourceCheck(
            job, self._kafka, installed=is_installed(), accept=settings.accept_source, sleep=time.sleep
        )
        self._directory: WorkDirectory | None = None
        self._stopped = False
        self._ends_by_itself = False
        self._described: dict[str, str] = {}
        self._coming: tuple[Mapping[str, str], QueryFacts] | None = None
        """The query's facts from before the claim, and the settings they depend on. Kept because planning takes
        time."""
        self._batches_retained: int | None = None
        self._over = threading.Event()
        self._supervisor: Supervisor | None = None
        self._staging_failed: Exception | None = None
        self._callback_port: int | None = None
        self._held: HeldPlans | None = None
        self.query: StreamingQuery | None = None

    @property
    def application_id(self) -> str | None:
        return self._application_id

    @property
    def sink(self) -> Sink | None:
        return self._sink

    @property
    def batches_retained(self) -> int | None:
        return self._batches_retained

    def batch_reports(self) -> BatchReports:
        return lambda after: finished_batches(self.query, after)

    def describe(self) -> dict[str, str]:
        return self._described

    def look_ahead(self, ahead: Ahead) -> None:
        refused = refusal_ahead(ahead, self._refusal_in)
        if refused is None:
            return
        if isinstance(refused, Incompatible):
            tell(self._job, ahead.barrier, refused.differences, refused=True)
        raise refused

    def _refusal_in(self, place: PlaceAhead) -> HoldfastError | None:
        if not self._settings.force:
            with storage_errors(f"read the description of the query in {place.directory.location}"):
                held = held_facts(place.directory, place.barrier)
            if (unsafe := self._unsafe_state(held)) is not None:
                return unsafe
            self._coming = (held.conf, self._planned(held.conf))
            if (refused := refusal(self._job, place.barrier, held, self._coming[1])) is not None:
                return refused
        if (away := self._refused_by_brokers(place.directory, place.barrier, place.plan)) is not None:
            return away
        taken = self._taken(place.directory, new_line=place.new_line)
        if (broken := place.standing.broken) is not None:
            writer = taken if taken is not None or self._sink is None else ours(self._sink, None)
            return None if writer is None else place.broken(writer, broken, place.barrier)
        if taken is None:
            return None
        repeats, accept = self._settings.repeats, self._settings.accept_sink
        return refusal_of_writer(self._job, taken, place, repeats=repeats, accept=accept)

    def _planned(self, kept: Mapping[str, str]) -> QueryFacts:
        with phase("planning the query"):
            return facts_of(self._built, self._settings.output_mode, kept)

    def _unsafe_state(self, held: QueryFacts) -> HoldfastError | None:
        work = self._settings.work
        return None if work is None else object_work.unsafe_state(work_directory(work), held)

    def _refused_by_brokers(
        self, directory: WorkDirectory, barrier: BatchId, plan: bytes | None = None
    ) -> HoldfastError | None:
        if not self._kafka:
            return None
        with storage_errors(f"read the description of the query in {directory.location}"):
            recorded = held_facts(directory, barrier).kafka
        return self._source_check.refusal(directory, barrier, recorded, plan)

    def preflight(self, directory: RunDirectory, barrier: BatchId | None) -> bool:
        with storage_errors(f"read the description of the query in {directory.location}"):
            held = QueryFacts() if barrier is None else held_facts(directory.files, barrier)
        if (unsafe := self._unsafe_state(held)) is not None:
            raise unsafe
        (conf, coming), self._coming = self._coming or (None, None), None
        if coming is None or conf != held.conf:
            coming = self._planned(held.conf)
        overridden = False
        if barrier is not None:
            overridden = require_compatible(self._job, barrier, held, coming, force=self._settings.force)
            if (away := self._refused_by_brokers(directory.files, barrier)) is not None:
                raise away
        positions = positions_at(self._kafka, directory.files, barrier)
        facts = msgspec.structs.replace(
            as_it_will_run(held, coming), kafka=self._source_check.facts(held.kafka, positions)
        )
        write_record(directory.files, BatchId(0 if barrier is None else barrier + 1), facts)
        self._described = described(facts)
        return overridden

    def look_at_sink(self, context: SinkContext) -> SinkState | None:
        if self._sink is None:
            return None
        return self._sink.look(context, self._spark, self._built.schema)

    def missing_input(self, paths: Sequence[str]) -> tuple[str, ...] | None:
        """Uses Hadoop's file systems, as Spark's file source does."""
        try:
            return missing_files(self._spark, paths)
        except Exception as error:
            log.warning("could not check the files of the source: %s", as_holdfast_error(error).message)
            return None

    def kafka_inputs(self) -> tuple[KafkaInput, ...]:
        return self._kafka

    def kept_sources(self) -> tuple[KeptSource, ...]:
        return self._kept

    def _kept_sources(self, frame: DataFrame) -> tuple[KeptSource, ...]:
        kafka = [KafkaKept(inputs) for inputs in by_brokers(self._kafka)] if is_installed() else []
        return (*kafka, *kept_places(frame, lambda: self._directory))

    def batches_read(self, since: datetime | None) -> tuple[BatchRead, ...]:
        return () if self.query is None else batches_read(self.query, since)

    def cores(self) -> int | None:
        return int(self._spark.sparkContext.defaultParallelism)

    def skipped_input(self) -> tuple[str, ...]:
        return self._source_check.skipped

    def own_writer(self, directory: RunDirectory, *, new_line: bool = False) -> Taken | None:
        return self._taken(directory.files, new_line=new_line)

    def _taken(self, directory: WorkDirectory, *, new_line: bool) -> Taken | None:
        if not isinstance(self._built, DataStreamWriter):
            return None
        return taken_by(self._built, self._spark, directory, self._sink_position, new_line=new_line)

    def plans_refusal(self) -> str | None:
        return plans_refusal(self._session(), self._settings.work)

    def repeat(self, directory: RunDirectory, steps: Sequence[Repeat]) -> None:
        session = self._session()
        self._directory = directory.files
        repeat_batches(self._writer(), directory, steps, lambda: files_of(directory.files, session, self._on_objects()))

    def open_sink(self, context: SinkContext) -> None:
        assert self._sink is not None
        assert isinstance(self._built, DataFrame)
        self._sink.open(context, self._spark, self._built.schema)

    def start(self, directory: RunDirectory, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._source_check.forget()
        self._directory = directory.files
        writer = self._writer().option("checkpointLocation", directory.location)
        self._staging_failed = None
        self._hold_plans(supervisor.keep_plan, directory.location)
        try:
            manager = self._on_objects() or (self._held.name if self._held is not None else None)
            with files_of(self._directory, self._session(), manager):
                self.query = writer.start()
        except Exception as error:
            raise StartFailed(exception_text(error)) from error
        _require_synchronous_progress(self.query)
        self._ends_by_itself = _ends_by_itself(self.query)
        self._batches_retained = int(self._spark.conf.get(RETENTION, "100") or 100)
        self._over = threading.Event()
        waiting = threading.Thread(
            target=about_the_same(self._await_end), args=(self.query, self._over, supervisor.ended)
        )
        waiting.name, waiting.daemon = "holdfast-query-end", True
        waiting.start()
        self._described["query"] = str(self.query.id)

    def stop(self) -> None:
        self._stopped = True
        if self.query is not None:
            try:
                self.query.stop()
            except Exception as error:
                # A query that has already failed, or a JVM that is gone, counts as stopped.
                log.debug("stopping the query: %s", error)

    def _await_end(self, query: StreamingQuery, over: threading.Event, ended: Callable[[], None]) -> None:
        """Runs on a thread of its own until the query ends: only this wait also notices the end of the JVM."""
        try:
            query.awaitTermination()
        except Exception as error:
            log.debug("the query ended: %s", error)
        port, self._callback_port = self._callback_port, None  # before the next query has one
        if self._held is not None and self._directory is not None:
            with suppress(Exception):  # a JVM that is gone holds nothing
                self._held.release(self._directory.location)
        over.set()
        ended()
        if port is not None:
            close_callback(self._spark.sparkContext, port)

    def commits_told(self) -> int | None:
        if self._directory is None or self._directory.scheme != object_work.SCHEME or self._held is None:
            return None
        try:
            return self._held.commits()
        except Exception as error:
            log.debug("the JVM does not say what was committed: %s", error)
            return None

    def end(self) -> QueryEnd | None:
        assert self.query is not None
        if not self._over.is_set():
            return None
        try:
            if self.query.isActive:
                return None  # the wait was interrupted, the query still runs
            failed = failure_text(self._spark, self.query)
        except Exception as error:
            return QueryEnd(EndedBy.SPARK_GONE, str(error))
        if self._stopped or (failed is None and self._ends_by_itself):
            return AS_ASKED
        if failed is None:
            return QueryEnd(EndedBy.OUTSIDE)
        if self._staging_failed is not None:
            return QueryEnd(EndedBy.SINK, exception_text(self._staging_failed))
        return QueryEnd(EndedBy.ERROR, failed)

    def _session(self) -> SparkSession:
        """The session in which the query was built."""
        return frame_and_mode(self._built, self._settings.output_mode)[0].sparkSession

    def _on_objects(self) -> str | None:
        """The file manager for a work directory on an object store; None elsewhere."""
        if self._directory is None or self._directory.scheme != object_work.SCHEME:
            return None
        self._held = self._held or HeldPlans(self._session())
        self._held.write_here()
        return self._held.name

    def _hold_plans(self, keep: KeepPlan | None, directory: str) -> None:
        if keep is not None:
            self._held = self._held or HeldPlans(self._session())
            self._held.hold(directory, lambda batch, offsets: self._ask_keeper(keep, batch, offsets))

    def _ask_keeper(self, keep: KeepPlan, batch: int, offsets: bytes) -> str:
        """Called by Spark, on the query's thread, before it writes the offsets of the batch."""
        with about(self._job):
            self._callback_port = self._callback_port or port_of_this_callback(self._spark.sparkContext)
            try:
                keep(BatchId(batch), offsets, lambda: self._stopped)
            except HoldfastError as error:
                self._staging_failed = error if isinstance(error, Fenced) else None
                return error.message
            self._step("batch.planned")
            return ""

    def _writer(self) -> DataStreamWriter:
        if isinstance(self._built, DataStreamWriter):
            return self._built
        writer = self._built.writeStream.outputMode(self._settings.output_mode).queryName(self._job)
        if trigger := trigger_of(self._settings.trigger):
            writer = writer.trigger(**trigger)
        return writer.foreachBatch(self._stage)

    def _stage(self, batch: DataFrame, batch_id: int) -> None:
        """Spark calls it on a thread of its own, before it commits the batch."""
        with about(self._job):
            self._stage_here(batch, BatchId(batch_id))

    def _stage_here(self, batch: DataFrame, batch_id: BatchId) -> None:
        """A checkpoint publishes what this writes to the ledger."""
        assert self._sink is not None
        assert self._directory is not None
        self._callback_port = self._callback_port or port_of_this_callback(self._spark.sparkContext)
        if self._supervisor is not None and not self._supervisor.still_owner():
            raise Fenced("another run owns the job now")
        self._step("batch.begin")
        try:
            staged = self._sink.stage(batch, batch_id)
        except Exception as error:
            self._staging_failed = error
            raise
        self._step("batch.staged")
        ledger.write(self._directory, staged)
        self._step("batch.ledger")


def built_by(build: object, spark: SparkSession, sink: Sink | None) -> Built:
    """Call the user's function. Refuse what cannot run, before anything is changed."""
    built = build(spark) if callable(build) and not isinstance(build, DataStreamWriter) else build
    shown = getattr(build, "__name__", repr(build))
    if isinstance(built, DataStreamWriter):
        if sink is not None:
            raise InvalidSettings(
                f"{shown} returned a DataStreamWriter, which has a sink of its own, but a sink was given too",
                hint="return the streaming DataFrame and let holdfast write it, or leave the sink out",
            )
        log.warning(
            "the query has a writer of its own: its output is exact if that knows batch ids or replaces rows by key, "
            "else a batch may come twice; a start that would make it skip rows is refused"
        )
        return built
    if not isinstance(built, DataFrame) or not built.isStreaming:
        kind = "a DataFrame that is not streaming" if isinstance(built, DataFrame) else f"{type(built).__name__}"
        raise InvalidSettings(
            f"{shown} must return a streaming DataFrame, it returned {kind}",
            hint="build it from spark.readStream",
        )
    if sink is None:
        raise InvalidSettings(
            f"{shown} returned a streaming DataFrame, but there is no sink to write it to",
            hint="give one: sink=Delta('/data/orders'), or on the command line --sink delta:/data/orders",
        )
    return built


def trigger_of(value: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The keywords for Spark's `trigger`."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if value == "available-now":
        return {"availableNow": True}
    if value == "once":
        return {"once": True}
    return {"processingTime": f"{round(seconds('trigger', value) * 1000)} milliseconds"}


def _require_synchronous_progress(query: StreamingQuery) -> None:
    """With asynchronous progress tracking `commits/N` does not imply that batch N is complete, so there is no
    barrier."""
    try:
        execution = query._jsq.streamingQuery().getClass().getSimpleName()
    except Exception:
        return  # not a classic session; the option is not visible
    if "Async" in str(execution):
        query.stop()
        raise InvalidSettings(
            "the query uses asynchronous progress tracking, which leaves no consistent point to checkpoint",
            hint="remove the option asyncProgressTrackingEnabled",
        )
    if "Continuous" in str(execution):
        query.stop()
        raise InvalidSettings(
            "the query runs continuously, without micro-batches, which leaves no consistent point to checkpoint",
            hint="use a processing time as its trigger",
        )


def _ends_by_itself(query: StreamingQuery) -> bool:
    """Whether the query has a trigger that ends, such as `availableNow`."""
    try:
        trigger = str(query._jsq.streamingQuery().trigger().getClass().getSimpleName())
    except Exception:
        return True  # not a classic session: the trigger is not visible
    return "OneTime" in trigger or "AvailableNow" in trigger


def as_holdfast_error(error: Exception) -> HoldfastError:
    """Spark's error at the start of a job, in one line."""
    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, StartFailed):
        failure = failure_of_text(str(error))
        return ending_of(failure.cause)(f"could not start the query: {failure.message}", hint=failure.hint)
    text = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return HoldfastError(f"could not start the query: {text}")
