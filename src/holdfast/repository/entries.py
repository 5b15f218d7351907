"""The entries of the journal. Written once, never changed; a reader must understand every older format.

An entry's place is its sequence number, its writer is known by `fencing_epoch`, and `attempt` is unique to one attempt
to append, so that a writer that got no answer can read the entry back and know whether it is its own.

From format 2 on the entries are a chain: each names its predecessor and the digest of that one's stored bytes, so that
a reader can tell a gap from the end. Entries of format 1 stand before the first of format 2, and prove nothing.
"""

from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from holdfast.identifiers import AttemptId, BatchId, CheckpointId, Digest, FencingEpoch, Sequence

FORMAT = 2
CHAINED_SINCE = 2


class Process(msgspec.Struct, frozen=True):
    """One life of one process on one host, so that "the pid exists" cannot mistake another process for it."""

    host: str
    pid: int
    boot_id: str = ""
    pid_namespace: str = ""
    started_ticks: int = 0
    identity: str = ""
    """A name that only one process has at a time, such as a pod's; a newer process of that name is its successor."""


class PhaseDuration(msgspec.Struct, frozen=True):
    name: str
    ms: int


class ShardSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    ms: int
    bytes_total: int
    bytes_new: int
    files: int


class Requests(msgspec.Struct, frozen=True):
    """What a run asked of its home, over `seconds`."""

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
    """Of so many hours that have one, counted from the newest, the newest one each."""
    keep_daily: int = 0
    grace_s: float = 0.0
    """Objects are not deleted before their checkpoint has been retired this long: somebody may be restoring it."""


class RecordedHeadroom(msgspec.Struct, frozen=True, kw_only=True):
    """How long a checkpoint needed the files of its barrier, and how long they live."""

    needed_ms: int
    """Until they were pinned or, where that is not possible, copied."""
    lives_ms: int
    batches_retained: int
    """Spark's setting."""
    pinned: bool


class Entry(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    format: int = FORMAT
    sequence: Sequence
    attempt: AttemptId
    fencing_epoch: FencingEpoch
    at: datetime
    previous: Sequence = Sequence(0)
    """The entry before this one, 0 for none. Filled in by the journal, as are the next two."""
    previous_digest: str = ""
    """Of the stored bytes of `previous`."""
    claim: AttemptId = AttemptId("")
    """The `attempt` of the `run-started` of the run that wrote it: numbers of runs come again in a home that was put
    back from a backup, these do not."""


class Stamp(TypedDict):
    """What the journal gives to each entry, and its maker passes on: `CheckpointStarted(**stamp, id=…)`."""

    sequence: Sequence
    attempt: AttemptId
    fencing_epoch: FencingEpoch
    at: datetime


class RunStarted(Entry, frozen=True, kw_only=True, tag="run-started"):
    """Claims ownership. Its sequence number is the run's fencing_epoch."""

    lineage: str
    """Same in all runs of one life of the home's job; made by its first run."""
    process: Process
    heartbeat_s: float
    work: str
    """Where this run's work directory is, on `process.host`."""
    holdfast: str
    """The version of holdfast."""
    purpose: Literal["pipeline", "maintenance"] = "pipeline"
    """`maintenance`: a command that writes while no pipeline runs. It makes no batches and publishes nothing."""
    retention: Retention | None = None
    """What a pipeline keeps, so that a collection while it does not run keeps the same."""
    next_sequence: Sequence | None = None
    """Where the journal goes on, when that is not the next number: a copy goes on above the numbers of its source."""
    interval_s: float = 0.0
    """Between checkpoints, so that a reader can tell when one is late; 0 when not known."""
    state_file: str = ""
    """Where the run's state file is, on `process.host`; empty when it has none."""
    sink: str = ""
    """What the sink says of itself, empty when the query writes by itself."""

    @property
    def host(self) -> str:
        return self.process.host

    @property
    def pid(self) -> int:
        return self.process.pid


class RunEnded(Entry, frozen=True, kw_only=True, tag="run-ended"):
    """The run stopped by itself: the next one need not wait for its heartbeat to go stale."""

    reason: str
    planned: BatchId | None = None
    """Where the query brings a writer of its own: the newest batch that it may have got, -1 for none; None when that is
    not known."""
    failed: bool = False
    """It ended because something failed, and was not just stopped. Entries of older versions do not say."""
    never_ran: bool = False
    """It could not start: its query wrote nothing."""
    untouched: bool = False
    """And it failed before it had a directory: what the run before left, there and in the sink, is as that left it."""


class CheckpointStarted(Entry, frozen=True, kw_only=True, tag="checkpoint-started"):
    """Takes the id for ever, whatever becomes of the checkpoint.

    It is appended before any other work. Otherwise the ids of failed checkpoints would be used again after a crash. An
    attempt that fails before this entry, because the home is unreachable, has no id; the history lists it all the same.
    """

    id: CheckpointId
    checkpoint_kind: Literal["checkpoint", "savepoint"]
    name: str | None
    barrier_batch_id: BatchId


class CheckpointCompleted(Entry, frozen=True, kw_only=True, tag="checkpoint-completed"):
    """THE commit point of a checkpoint."""

    id: CheckpointId
    checkpoint_kind: Literal["checkpoint", "savepoint"]
    name: str | None
    barrier_batch_id: BatchId
    manifest: Digest
    triggered_at: datetime
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
    """Of the run, from its previous completed checkpoint, or from its start, to this one."""
    headroom: RecordedHeadroom | None = None


class CheckpointFailedEntry(Entry, frozen=True, kw_only=True, tag="checkpoint-failed"):
    """History, written when the home can be written again; decides nothing. `id` is None when it never got one."""

    id: CheckpointId | None
    checkpoint_kind: Literal["checkpoint", "savepoint"]
    name: str | None
    barrier_batch_id: BatchId | None
    triggered_at: datetime
    duration_ms: int
    failure: Failure
    shards: int = 0
    shards_acknowledged: int = 0
    bytes_new: int = 0
    phases: tuple[PhaseDuration, ...] = ()
    slowest: tuple[ShardSummary, ...] = ()
    head: Sequence | None = None
    """The newest entry of the journal when it failed, where it belongs; None in entries of the first versions."""


class CheckpointsRetired(Entry, frozen=True, kw_only=True, tag="checkpoints-retired"):
    """From here on these checkpoints may not be chosen, and their objects may be deleted."""

    ids: tuple[CheckpointId, ...]


class CheckpointCorrupt(Entry, frozen=True, kw_only=True, tag="checkpoint-corrupt"):
    """Found damaged: not chosen any more."""

    id: CheckpointId
    detail: str
    passed_over: bool = True
    """A recovery resumed at an older one instead. Then the line of batches that this one belongs to is abandoned, and
    only a `checkpoint-repaired` that `returns` brings it back. Else it was only found damaged, and any repair can."""
    published: BatchId | None = None
    """The newest batch that the sink had published when this was decided; None when that was not known, and in entries
    of the first versions."""
    refused: bool = False
    """Spark could not read it although every byte was right: that its bytes are right proves nothing for it."""


class CheckpointRepaired(Entry, frozen=True, kw_only=True, tag="checkpoint-repaired"):
    """Its bytes are right again, all of them were read. Undoes `checkpoint-corrupt`, unless it was passed over."""

    id: CheckpointId
    detail: str
    returns: bool = False
    """It was passed over, nothing has been published on the other line of batches, and the job goes on from it again.
    Directories that earlier runs left belong to the other line."""


class WentBack(Entry, frozen=True, kw_only=True, tag="went-back"):
    """Somebody asked for it: the job goes on from checkpoint `chosen`, and the line of batches behind it is abandoned.

    Written before the sink is rewound. Batches are planned anew from there and may be cut differently, so choosing one
    of `abandoned` later would mix two histories: none of them is ever chosen again.
    """

    chosen: CheckpointId
    abandoned: tuple[CheckpointId, ...]
    asked: str
    """`savepoint NAME` or `checkpoint ID`."""
    published: BatchId | None = None
    """The newest batch that the sink had published when this was decided; None when that was not known, and in entries
    of the first versions."""


class SavepointNamed(Entry, frozen=True, kw_only=True, tag="savepoint-named"):
    """From here on the completed checkpoint is a savepoint of this name."""

    id: CheckpointId
    name: str


class SavepointDeleted(Entry, frozen=True, kw_only=True, tag="savepoint-deleted"):
    """From here on it is a checkpoint like others, which retention may retire."""

    id: CheckpointId
    name: str


class RequestAnswered(Entry, frozen=True, kw_only=True, tag="request-answered"):
    """The owner has served what a command asked of it. A request is served once, also by another run."""

    request: str
    """The id that the asker gave it."""
    checkpoint: CheckpointId | None = None
    failure: Failure | None = None
    message: str = ""


class QueryRestarted(Entry, frozen=True, kw_only=True, tag="query-restarted"):
    """History: the query died and was started again within the run, or the attempt to do so failed."""

    cause: str
    """One of `runtime/query/causes.py`; the first versions knew only `state unreadable` and `query failed`."""
    message: str
    attempt_number: int
    hint: str | None = None
    duration_ms: int | None = None
    """From the failure until the query ran again; None when it did not, and in entries of the first versions."""


class JournalFolded(Entry, frozen=True, kw_only=True, tag="journal-folded"):
    """From here on `folds/<upto>` stands for all entries up to `upto`, which are deleted after this was written."""

    upto: Sequence
    digest: Digest
    """Of the fold."""
    answers_lost_upto: Sequence = Sequence(0)
    """Answers to requests up to this entry may be missing: a request whose asker had not seen this far is void."""


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
    | SavepointNamed
    | SavepointDeleted
    | RequestAnswered
    | QueryRestarted
    | JournalFolded
)
