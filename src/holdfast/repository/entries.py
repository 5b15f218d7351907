"""The entries of the journal. Written once, never changed; a reader must understand every older format.

An entry's place is its sequence number and its writer is `fencing_epoch`. `attempt` is unique to one attempt to append:
a writer that got no answer reads the entry back and recognizes its own.

From format 2 on the entries are a chain: each names its predecessor and the digest of that one's stored bytes, so that
a reader can tell a gap from the end. Entries of format 1 come before the first of format 2 and prove nothing.
"""

from typing import Literal, TypedDict

import msgspec

from holdfast.checkpoint.manifest import ManifestFile
from holdfast.identifiers import AttemptId, BatchId, CheckpointId, Digest, FencingEpoch, Sequence
from holdfast.repository.moments import Moment

FORMAT = 2
CHAINED_SINCE = 2


class Process(msgspec.Struct, frozen=True):
    """One process on one host, identified beyond its pid: another process may get the same pid later."""

    host: str
    pid: int
    boot_id: str = ""
    pid_namespace: str = ""
    started_ticks: int = 0
    identity: str = ""
    """A name that only one process has at a time, such as a pod's. A newer process with that name is its successor."""


class PhaseDuration(msgspec.Struct, frozen=True):
    name: str
    ms: int


class ShardSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    ms: int
    bytes_total: int
    bytes_new: int
    files: int
    host: str = ""
    """Of the executor that copied it; empty when the driver did."""


class BatchSpan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What Spark said of a finished batch; where there are many, of several that follow one another."""

    first: BatchId
    last: BatchId
    at: Moment
    """When the last one was finished."""
    ms: int
    """How long they took together."""
    longest_ms: int
    rows: int
    """How many rows they read."""
    state_rows: int | None = None
    """In the state after the last one; None for a query without state."""


class Requests(msgspec.Struct, frozen=True):
    """A run's requests to its home, over `seconds`."""

    put: int
    get: int
    list: int
    delete: int
    bytes_out: int
    bytes_in: int
    seconds: float


class Failure(msgspec.Struct, frozen=True):
    reason: str
    message: str
    counted: bool
    hint: str = ""


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Which completed checkpoints a run keeps. Savepoints always stay."""

    retained: int
    """The newest ones."""
    keep_hourly: int = 0
    """The newest checkpoint of each of this many hours, counted from the newest hour that has one."""
    keep_daily: int = 0
    grace_s: float = 0.0
    """Objects stay this long after their checkpoint was retired, because a restore may be reading them."""


class RecordedHeadroom(msgspec.Struct, frozen=True, kw_only=True):
    """How long a checkpoint needed the files of its barrier, and how long Spark keeps them."""

    needed_ms: int
    """Until they were pinned or, where pins are not possible, copied."""
    lives_ms: int
    batches_retained: int
    """Spark's setting."""
    pinned: bool


class Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    format: int = FORMAT
    sequence: Sequence
    attempt: AttemptId
    fencing_epoch: FencingEpoch
    at: Moment
    previous: Sequence = Sequence(0)
    """The entry before this one, 0 for none. Filled in by the journal, as are the next two."""
    previous_digest: str = ""
    """Of the stored bytes of `previous`."""
    claim: AttemptId = AttemptId("")
    """The `attempt` in the writer's `run-started`. It is unique even in a home that was restored from a backup, where
    epochs repeat."""


class Stamp(TypedDict):
    """Fields that the journal supplies for each entry: `CheckpointStarted(**stamp, id=…)`."""

    sequence: Sequence
    attempt: AttemptId
    fencing_epoch: FencingEpoch
    at: Moment


class RunStarted(Entry, frozen=True, kw_only=True, tag="run-started"):
    """Claims ownership. Its sequence number is the run's fencing_epoch."""

    lineage: str
    """The lineage: the same in all runs of the job in this home; the first run creates it."""
    process: Process
    heartbeat_s: float
    work: str
    """Where this run's work directory is, on `process.host`."""
    holdfast: str
    """The version of holdfast."""
    purpose: Literal["pipeline", "maintenance"] = "pipeline"
    """`maintenance`: a command that writes while no pipeline runs. It makes no batches and publishes nothing."""
    retention: Retention | None = None
    """The pipeline's retention. A collection while the pipeline does not run applies the same."""
    next_sequence: Sequence | None = None
    """Where the journal continues, if not at the next number: a copy continues above the numbers of its source."""
    interval_s: float = 0.0
    """Between checkpoints, so that a reader can see when one is late; 0 when unknown."""
    state_file: str = ""
    """Where the run's state file is, on `process.host`; empty when it has none."""
    sink: str = ""
    """The sink's own description; empty when the query uses its own writer."""
    plans: Literal["", "prefer", "require"] = ""
    """Whether the plan of each batch is durable before the query's own writer sees the batch; empty when no plans are
    kept."""
    shows_batches: bool = False
    """Of a copy: a run of the job that it was copied from has published batch by batch."""
    protects: str = ""
    """The checkpoint directory that the run only reads: somebody else's query works there. Empty when the run has a
    query of its own."""

    @property
    def host(self) -> str:
        return self.process.host

    @property
    def pid(self) -> int:
        return self.process.pid


class RunEnded(Entry, frozen=True, kw_only=True, tag="run-ended"):
    """The run recorded its end: the next run need not wait for its heartbeat to expire."""

    reason: str
    planned: BatchId | None = None
    """For a query with its own writer: the newest batch that the writer may have received, -1 for none, None when
    unknown."""
    failed: bool = False
    """The run ended because of a failure, not because of a stop. Entries of older versions lack this."""
    never_ran: bool = False
    """The run could not start: its query wrote nothing."""
    untouched: bool = False
    """It failed before it had a work directory: the work directory and the sink are as the run before left them."""
    writer_has: BatchId | None = None
    """For a query with its own writer: the newest batch that the writer's sink reported; None when it has none, cannot
    be asked, or did not answer."""
    needs_every_batch: bool = False
    """That sink must be given every batch id, as Spark's file sink must."""


class CheckpointStarted(Entry, frozen=True, kw_only=True, tag="checkpoint-started"):
    """Uses the id up, whether the checkpoint completes or not.

    It is appended before any other work. Otherwise the ids of failed checkpoints would be used again after a crash. An
    attempt that fails before this entry, because the home is unreachable, has no id; the history lists it all the same.
    """

    id: CheckpointId
    checkpoint_kind: Literal["checkpoint", "savepoint"]
    name: str | None
    barrier_batch_id: BatchId


class SkippedRecords(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    records: int


class Adopted(msgspec.Struct, frozen=True):
    """The checkpoint directory of plain Spark that a checkpoint was made of."""

    location: str
    query_id: str
    planned: BatchId
    """The newest batch that was planned there."""


class Rescaled(msgspec.Struct, frozen=True):
    """The checkpoint that a checkpoint with another number of state partitions was made of."""

    checkpoint: CheckpointId
    before: int
    after: int
    state_rows: int
    """Read before and after, and found equal."""


class CheckpointCompleted(Entry, frozen=True, kw_only=True, tag="checkpoint-completed"):
    """THE commit point of a checkpoint."""

    id: CheckpointId
    checkpoint_kind: Literal["checkpoint", "savepoint"]
    name: str | None
    barrier_batch_id: BatchId
    manifest: Digest
    triggered_at: Moment
    duration_ms: int
    bytes_total: int
    bytes_new: int
    files: int
    objects_written: int
    shards: int
    manifest_bytes: int = 0
    phases: tuple[PhaseDuration, ...] = ()
    slowest: tuple[ShardSummary, ...] = ()
    """The slowest shards, slowest first; all of them would make the journal large."""
    requests: Requests | None = None
    """Requests of the run since its previous completed checkpoint, or since its start."""
    headroom: RecordedHeadroom | None = None
    line: Sequence = Sequence(0)
    """The line of batches that it ends: `repository/lines.py`."""
    packed_after: BatchId | None = None
    """Its files hold the plans of all batches behind this one, up to its barrier; None when they do not."""
    packed: tuple[ManifestFile, ...] = ()
    """Where its plans are that no completed checkpoint has told before: found, too, when its manifest is lost."""
    adopted: Adopted | None = None
    """None when a run of this job made it."""
    rescaled: Rescaled | None = None
    """None unless `holdfast rescale` made it. Its last batch has read and written nothing."""
    batches: tuple[BatchSpan, ...] = ()
    """Of this run since its previous completed checkpoint, oldest first, as far as Spark told in time: display only.
    Few: `batch_spans.KEPT`."""
    writer_has: BatchId | None = None
    """As in `run-ended`, asked after its barrier was committed. A sink that reports less later was put back."""
    skipped: tuple[SkippedRecords, ...] = ()
    """Records that the brokers deleted before the query read them, since the run's completed checkpoint before."""


class CheckpointFailedEntry(Entry, frozen=True, kw_only=True, tag="checkpoint-failed"):
    """History only; decides nothing. Written when the home can be written again. `id` is None when the attempt never
    got one."""

    id: CheckpointId | None
    checkpoint_kind: Literal["checkpoint", "savepoint"]
    name: str | None
    barrier_batch_id: BatchId | None
    triggered_at: Moment
    duration_ms: int
    failure: Failure
    shards: int = 0
    shards_acknowledged: int = 0
    bytes_new: int = 0
    phases: tuple[PhaseDuration, ...] = ()
    slowest: tuple[ShardSummary, ...] = ()
    head: Sequence | None = None
    """The newest entry of the journal when the checkpoint failed; None in entries of the first versions."""


class CheckpointsRetired(Entry, frozen=True, kw_only=True, tag="checkpoints-retired"):
    """From now on these checkpoints may not be chosen, and their objects may be deleted."""

    ids: tuple[CheckpointId, ...]


class CheckpointCorrupt(Entry, frozen=True, kw_only=True, tag="checkpoint-corrupt"):
    """Found damaged: recovery does not choose it any more."""

    id: CheckpointId
    detail: str
    passed_over: bool = True
    """Recovery resumed at an older checkpoint instead. Then the timeline of this one is abandoned, and only a
    `checkpoint-repaired` with `returns` makes it usable again. Otherwise any repair does."""
    published: BatchId | None = None
    """The newest batch that the sink had published when this was decided; None when that was not known, and in entries
    of the first versions."""
    refused: bool = False
    """Spark could not read it although every byte was right. So right bytes do not prove that it is usable."""


class CheckpointRepaired(Entry, frozen=True, kw_only=True, tag="checkpoint-repaired"):
    """All its bytes were read and are right again. Undoes `checkpoint-corrupt`, unless it was passed over."""

    id: CheckpointId
    detail: str
    returns: bool = False
    """It was passed over, nothing has been published on the other timeline, and the job continues from it again.
    Directories that earlier runs left belong to the other timeline."""


ROLLBACK = "rollback "
"""How `asked` begins when `holdfast rollback` asked for it, not the start."""


class WentBack(Entry, frozen=True, kw_only=True, tag="went-back"):
    """On request the job continues from checkpoint `chosen`, and the timeline after it is abandoned.

    Written before the sink is rewound. Spark plans the batches after it again, perhaps with other offsets. Choosing one
    of `abandoned` later would mix two timelines, so none of them is ever chosen again.
    """

    chosen: CheckpointId
    abandoned: tuple[CheckpointId, ...]
    asked: str
    """`savepoint NAME`, `checkpoint ID`, or `rollback N` with the number of the `rollback-requested`."""
    published: BatchId | None = None
    """The newest batch that the sink had published when this was decided; None when that was not known, and in entries
    of the first versions."""


class RollbackRequested(Entry, frozen=True, kw_only=True, tag="rollback-requested"):
    """A command took a stopped job back: its next start goes back to checkpoint `chosen`, which `went-back` records."""

    chosen: CheckpointId | None
    """None: an earlier request is cancelled."""


class SavepointNamed(Entry, frozen=True, kw_only=True, tag="savepoint-named"):
    """From now on the completed checkpoint is a savepoint with this name."""

    id: CheckpointId
    name: str


class SavepointDeleted(Entry, frozen=True, kw_only=True, tag="savepoint-deleted"):
    """From now on it is an ordinary checkpoint, which retention may retire."""

    id: CheckpointId
    name: str


class RequestAnswered(Entry, frozen=True, kw_only=True, tag="request-answered"):
    """The owner has served a command's request. A request is served once, even if the owner changes."""

    request: str
    """The id that the requester gave it."""
    checkpoint: CheckpointId | None = None
    failure: Failure | None = None
    message: str = ""


class QueryRestarted(Entry, frozen=True, kw_only=True, tag="query-restarted"):
    """History: the query failed, and the run restarted it or failed to."""

    cause: str
    """One of `runtime/query/causes.py`; the first versions wrote only `state unreadable` and `query failed`."""
    message: str
    attempt_number: int
    hint: str | None = None
    duration_ms: int | None = None
    """From the failure until the query ran again; None when it did not, and in entries of the first versions."""


class PlansLate(Entry, frozen=True, kw_only=True, tag="plans-late"):
    """History: batches went on before their plans were durable. Written when they are: until then a lost disk would not
    have been exact for the query's own writer."""

    first: BatchId
    last: BatchId
    since: Moment | None = None
    """When the first of them went on; None when that was in an earlier run."""


class JournalFolded(Entry, frozen=True, kw_only=True, tag="journal-folded"):
    """From now on `folds/<upto>` replaces all entries up to `upto`, which are deleted after this entry is written."""

    upto: Sequence
    digest: Digest
    """Of the fold."""
    answers_lost_upto: Sequence = Sequence(0)
    """Answers to requests up to this entry may be missing: a request whose requester had not read this far is void."""


AnyEntry = (
    RunStarted
    | RunEnded
    | CheckpointStarted
    | CheckpointCompleted
    | CheckpointFailedEntry
    | CheckpointsRetired
    | CheckpointCorrupt
    | CheckpointRepaired
    | WentBack
    | RollbackRequested
    | SavepointNamed
    | SavepointDeleted
    | RequestAnswered
    | QueryRestarted
    | PlansLate
    | JournalFolded
)
