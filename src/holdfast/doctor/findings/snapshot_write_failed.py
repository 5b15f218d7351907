"""A snapshot, or a file of Spark's checkpoint, could not be written."""

import re

from holdfast.doctor.findings import local_disk_full
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support, always, for_variant
from holdfast.doctor.findings.storage_trouble import FILE_OF_SPARKS_CHECKPOINT_GONE, storage_trouble
from holdfast.doctor.matching.case import CONTEXT, Case
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.matching.trust import is_cut_off
from holdfast.doctor.reading.events import ExceptionLink, LogEvent
from holdfast.doctor.reading.text import link_with, root, shown, whole
from holdfast.finding import Severity

CODE = "snapshot-write-failed"

_FLINK = (
    "Could not materialize checkpoint",
    "Could not complete snapshot",
    "Could not perform checkpoint",
    "output stream to",
    "Could not open output stream for state backend",
    "asynchronous part of checkpoint",
    "Asynchronous task checkpoint failed",
    "Failure to finalize checkpoint",
    "Could not finalize the pending checkpoint",
    "Could not complete the pending checkpoint",
    "IO-problem detected",
    "Failed to trigger or complete checkpoint",
    "Could not initialize checkpoint storage",
    "Failed to create checkpoint storage",
)
_SPARK = (
    "CANNOT_WRITE_STATE_STORE",
    "Error writing state store",
    "Error committing version",
    "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
    "FAILED_CREATE_CHECKPOINT_DIRECTORY",
    "terminated with error",
    "Error doing snapshots",
    "Error performing snapshot maintenance",
    "Cannot perform commit during state checkpoint",
    "Could not write checkpoint for time",
    "Error writing stream metadata",
)
_REFUSED = (
    "CANNOT_WRITE_STATE_STORE",
    "STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
    "STATE_STORE_UNEXPECTED_EMPTY_FILE_IN_ROCKSDB_ZIP",
    "Could not write checkpoint for time",
)
_WRITING = re.compile(r"CheckpointFileManager\S*\.(?:close|renameTempFile|create\w*|mkdirs)$")
_DISCARDS = (
    "discards an ongoing checkpoint",
    "belonging to a discarded checkpoint",
    "caused by an already discarded checkpoint",
    "disable failTaskOnCheckpointError",
    "some time before they accept a checkpoint request",
)
_EXPLAINED = ("triggerCheckpointOnBarrier fails", "snapshotState failed due to")
"""How people tell what happened, with the names of Flink's methods."""
_TOLD = "told"
_SHOWN_BY_FRAMES = "frames"
_EXPLAINED_AS = "explained"
_BY_HDFS = "explained-hdfs"
_NOTHING_FAILED = frozenset((_TOLD, _SHOWN_BY_FRAMES, _EXPLAINED_AS, _BY_HDFS))
"""As far as the text shows."""
_WRITING_FRAMES = (
    "FsCheckpointStateOutputStream.",
    "FsCheckpointMetadataOutputStream.",
    "AsyncCheckpointRunnable.",
    "StreamTask.triggerCheckpointOnBarrier",
)
_CUT = "cut"
_WRAPPER = re.compile(r"\bCould not (?:perform checkpoint|complete snapshot|materialize checkpoint) \d+")
_BARE = (
    "Mkdirs failed to create",
    "Could not flush and close the file system output stream",
    "All datanodes ",
    "Path doesn't exist",
    "Name node is in safe mode",
    "Failed to replace a bad datanode",
    "could only be written to 0 of",
    "could only be replicated to 0 nodes",
    "while link file to",
    "Failed to trigger savepoint",
    "Failed to rename ",
    "No space left on device",
)
"""What a runtime says when it cannot write, pasted without the lines that tell what it wrote."""
_OF_HDFS = re.compile(r"(?:^|\.)hdfs\.(?:DFSClient|LeaseRenewer|DataStreamer|DFSOutputStream)")
_ENGINES = ("org.apache.flink.", "org.apache.spark.", "org.apache.hadoop.", "org.rocksdb.")
_DISK_FULL = local_disk_full.NEEDLE
"""Counts whatever a query was writing: state rows are written one by one, far below the code that logs it."""
_BY_OPERATOR = ("Could not perform checkpoint", "Could not complete snapshot", "Could not materialize checkpoint")
_ABORTED = re.compile(r"Cancel|Interrupted|aborted|CheckpointException|declined|not running|closed and discarded")
_ABOUT_CHECKPOINTS = re.compile(
    r"checkpoint|snapshot|savepoint|[Ss]tate ?[Ss]tore|chk-\d|/(?:offsets|commits|sources|state)/|HDFSMetadataLog"
    r"|StreamMetadata|\.delta\b|\.changelog\b"
)
_READING = (
    "Could not restore",
    "CANNOT_LOAD_STATE",
    "Error reading",
    "while opening RocksDB",
    "StateBackend for restore",
)
_METADATA_EXISTS = re.compile(r"_metadata\S* (?:for client \S+ )?already exists")


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if (
        _is_another_finding(event, text)
        or _reads(text)
        or not (_writes_a_checkpoint(event, text) or _DISK_FULL in text)
    ):
        return None
    trouble = storage_trouble(text)
    if trouble is not None:
        name, pattern = trouble
        return Clue(shown(event, link_with(event, pattern)), name)
    if _failed_in_its_own_code(event, text):
        return Clue(shown(event), _CUT if _ends_before_its_cause(event) else "operator")
    return Clue(shown(event), "refused") if _refused(event, text) else None


def _recognise_bare(event: LogEvent) -> Clue | None:
    """A trace alone, or a failure that the runtime itself reports: nothing says that something else was written."""
    text = whole(event)
    alone = event.logger is None and event.level is None and bool(event.exceptions)
    told = event.level is not None and ("avepoint" in text or _OF_HDFS.search(event.logger or "") is not None)
    if _is_another_finding(event, text) or _reads(text) or not (alone or told) or _of_another_program(event):
        return None
    trouble = storage_trouble(text)
    if trouble is not None:
        return Clue(shown(event, link_with(event, trouble[1])), trouble[0])
    if "Failed to rename " in text and not _ABOUT_CHECKPOINTS.search(text):
        return None
    return Clue(shown(event), "refused")


def _of_another_program(event: LogEvent) -> bool:
    return bool(event.frames) and not any(frame.startswith(_ENGINES) for frame in event.frames)


def _refused(event: LogEvent, text: str) -> bool:
    """A write of a checkpoint file failed with an unknown error."""
    if "AlreadyExists" in text or "Concurrent update to the log" in text:
        return False
    if "asynchronous part of checkpoint" in text:
        return _is_a_failure(root(event))
    return any(name in text for name in _REFUSED) or any(_WRITING.search(frame) for frame in event.frames)


def _reads(text: str) -> bool:
    if any(phrase in text for phrase in _READING):
        return True
    return " exist" in text and FILE_OF_SPARKS_CHECKPOINT_GONE.search(text) is not None


def _is_another_finding(event: LogEvent, text: str) -> bool:
    if "OutOfMemoryError" in text or "StateMigrationException" in text:
        return True
    if _DISK_FULL in text and local_disk_full.of_a_worker(event):
        return True
    return "already exists" in text and _METADATA_EXISTS.search(text) is not None


def _failed_in_its_own_code(event: LogEvent, text: str) -> bool:
    """The innermost exception is neither of the storage nor of Flink's abort of a checkpoint."""
    return any(phrase in text for phrase in _BY_OPERATOR) and _is_a_failure(root(event))


def _ends_before_its_cause(event: LogEvent) -> bool:
    """The innermost exception is the one that Flink puts around what happened."""
    last = root(event)
    return last is not None and _WRAPPER.search(last.message) is not None


def _is_a_failure(last: ExceptionLink | None) -> bool:
    return last is not None and not _ABORTED.search(f"{last.class_name}: {last.message}")


def _writes_a_checkpoint(event: LogEvent, text: str) -> bool:
    if "terminated with error" not in text:
        return True
    return bool(_ABOUT_CHECKPOINTS.search(text.replace(event.message, "")) or _in_checkpoint_code(event))


def _in_checkpoint_code(event: LogEvent) -> bool:
    return any("execution.streaming" in frame or "CheckpointFileManager" in frame for frame in event.frames)


def _described(event: LogEvent) -> Clue | None:
    """A report on how Flink before 1.9 deletes a checkpoint that is still being written: nothing happened here."""
    bare = event.logger is None and event.level is None and not event.exceptions
    return Clue(shown(event), _TOLD) if bare else None


def _explained(event: LogEvent) -> Clue | None:
    bare = event.logger is None and event.level is None and not event.exceptions
    return Clue(shown(event), _BY_HDFS if "hdfs" in event.message.lower() else _EXPLAINED_AS) if bare else None


def _cut_off(event: LogEvent) -> Clue | None:
    """The tail of a trace: what was being done when it was thrown, but not what was thrown."""
    writing = (frame for frame in event.frames if any(name in frame for name in _WRITING_FRAMES))
    frame = next(writing, None) if is_cut_off(event) else None
    return Clue(frame, _SHOWN_BY_FRAMES) if frame else None


def only_told(case: Case, seen: Sightings, severity: Severity) -> Severity:
    return "info" if all(sighting.key.variant in _NOTHING_FAILED for sighting in seen) else severity


def was_aborted(case: Case, seen: Sightings) -> Sightings:
    """Writes that failed because their checkpoint was discarded: that is another finding."""
    gone = {checkpoint for sighting in case.of(CONTEXT + "aborted") for checkpoint in sighting.checkpoints}
    return [
        s
        for s in seen
        if s.key.variant == _TOLD or (s.key.variant == "missing-path" and gone.intersection(s.checkpoints))
    ]


def _of_other_checkpoints(case: Case, seen: Sightings) -> Sightings:
    """What only explains, or is the tail of a trace, counts where nothing shows a failure."""
    passed_over = {sighting.key for sighting in was_aborted(case, seen)}
    if any(sighting.key.variant not in _NOTHING_FAILED for sighting in case.of(CODE)):
        passed_over |= {sighting.key for sighting in seen if sighting.key.variant in _NOTHING_FAILED}
    return [sighting for sighting in seen if sighting.key not in passed_over]


def _by_hdfs(case: Case, seen: Sightings) -> Support:
    """Named by HDFS itself; of who explains it, only that it was HDFS."""
    if any(sighting.key.variant == _BY_HDFS for sighting in seen):
        return Support(1)
    return for_variant("hdfs-datanodes")(case, seen)


_TOLERATE = "execution.checkpointing.tolerable-failed-checkpoints: 3"

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a snapshot could not be written to the checkpoint storage",
    rules=(
        Rule(CODE, _FLINK + _SPARK, _recognise),
        Rule(CODE, _BARE, _recognise_bare),
        Rule(CODE, _DISCARDS, _described, of_guides=True),
        Rule(CODE, _EXPLAINED, _explained, of_guides=True),
        Rule(CODE, _WRITING_FRAMES, _cut_off, short_only=True),
    ),
    causes=(
        Cause(
            "hdfs-datanodes",
            "HDFS had no healthy datanode for the block: disks or nodes behind it are failing or full",
            Fix(
                flink=(
                    _TOLERATE,
                    "# hdfs dfsadmin -report shows dead and full datanodes; in hdfs-site.xml of the job:",
                    "dfs.client.block.write.replace-datanode-on-failure.policy: ALWAYS",
                    "dfs.client.block.write.replace-datanode-on-failure.best-effort: true",
                ),
                spark=(
                    "# hdfs dfsadmin -report shows dead and full datanodes",
                    "spark.hadoop.dfs.client.block.write.replace-datanode-on-failure.policy=ALWAYS",
                    "spark.hadoop.dfs.client.block.write.replace-datanode-on-failure.best-effort=true",
                ),
                holdfast=(
                    'on_exceeded="alert"',
                    "tolerable_failures=3",
                    "# the pipeline keeps running while HDFS is repaired",
                ),
            ),
            _by_hdfs,
        ),
        Cause(
            "disk-full",
            "the disk or quota behind the checkpoint directory is full",
            Fix(
                flink=(
                    "state.checkpoints.num-retained: 1",
                    "state.backend.incremental: true",
                    "# free space, or point state.checkpoints.dir to a larger volume; remove chk-* of old jobs",
                ),
                spark=(
                    "spark.sql.streaming.minBatchesToRetain=20",
                    "# free space under checkpointLocation; if the path is below spark.local.dir, enlarge that volume",
                ),
                holdfast=("retained=3", "# holdfast collect --dry-run shows what can be deleted"),
            ),
            for_variant("disk-full"),
        ),
        Cause(
            "throttled",
            "the object store refused requests because there were too many of them",
            Fix(
                flink=(
                    "execution.checkpointing.interval: 5m",
                    "state.storage.fs.memory-threshold: 100kb",
                    "s3.entropy.key: _entropy_",
                    "state.checkpoints.dir: s3://<bucket>/_entropy_/checkpoints",
                    _TOLERATE,
                ),
                spark=(
                    '# .trigger(processingTime="60 seconds"): fewer batches, fewer requests',
                    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",
                    "spark.hadoop.fs.s3a.retry.throttle.limit=40",
                ),
                holdfast=('interval="5m"', "# small files are uploaded in packs: see `requests` in holdfast status"),
            ),
            for_variant("throttled"),
        ),
        Cause(
            "permission",
            "the identity of the job is not allowed to write there, or its credentials have expired",
            Fix(
                flink=(
                    "# give the job's role write, list and delete on state.checkpoints.dir",
                    "security.delegation.tokens.enabled: true",
                ),
                spark=(
                    "# give the job's role write, list and delete on checkpointLocation",
                    "spark.kerberos.renewal.credentials=keytab",
                ),
                holdfast=("# holdfast verify --job NAME tries the home with the same credentials",),
            ),
            for_variant("permission"),
        ),
        Cause(
            "unreachable",
            "the storage did not answer: network, name service, or a server that is down or in safe mode",
            Fix(
                flink=(_TOLERATE, "execution.checkpointing.timeout: 20m", "execution.checkpointing.min-pause: 60s"),
                spark=(
                    "spark.hadoop.fs.s3a.attempts.maximum=20",
                    "# restart the query automatically: plain Spark ends it with the first failed write",
                ),
                holdfast=('on_exceeded="alert"', "# writes are retried; the pipeline keeps running"),
            ),
            for_variant("unreachable"),
        ),
        Cause(
            "missing-path",
            "the checkpoint directory, or the file being written, is gone: deleted by others, by a lifecycle rule, "
            "or never created",
            Fix(
                flink=(
                    "# create the directory or bucket, and exempt it from clean-up jobs and lifecycle rules",
                    "state.checkpoints.dir: <directory that exists on every TaskManager and the JobManager>",
                    _TOLERATE,
                ),
                spark=(
                    "# create the directory or bucket, and exempt checkpointLocation from clean-up jobs and "
                    "lifecycle rules",
                ),
                holdfast=("# only the owner deletes; holdfast verify --all names what is missing",),
            ),
            for_variant("missing-path"),
        ),
        Cause(
            "operator",
            "an operator failed in its own code while it took its snapshot; the innermost exception shows where",
            Fix(
                flink=(
                    _TOLERATE,
                    "# fix what the innermost exception names: a failure in the synchronous part fails the task",
                ),
                holdfast=("# snapshots are copies of committed files: no code of the query runs for them",),
            ),
            for_variant("operator"),
        ),
        Cause(
            "cut-off",
            "the text ends before the reason, which the last `Caused by` below it names: most often the checkpoint "
            "storage refused the write, else the operator's own code failed",
            Fix(
                flink=(
                    _TOLERATE,
                    "# the whole trace is in the log of the TaskManager that ran the task: holdfast doctor on that",
                ),
                holdfast=('on_exceeded="alert"', "# writes are retried; the pipeline keeps running"),
            ),
            for_variant(_CUT, _SHOWN_BY_FRAMES, _EXPLAINED_AS, weight=1),
        ),
        Cause(
            "refused",
            "the storage refused the write; the innermost exception shows why",
            Fix(
                flink=(_TOLERATE,),
                spark=(
                    "# the storage must support atomic rename or create: try hadoop fs -mv in checkpointLocation",
                    "# keep other queries and clean-up jobs out of checkpointLocation",
                ),
                holdfast=('on_exceeded="alert"', "# writes are retried; the pipeline keeps running"),
            ),
            always(),
        ),
    ),
    references=("FLINK-4809",),
    by_variant=True,
    heals=True,
    enough=_of_other_checkpoints,
    grade=only_told,
)
