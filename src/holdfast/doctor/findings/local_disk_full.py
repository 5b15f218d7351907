"""A worker's own disk is full: shuffle, spilled rows, broadcast variables, jars. No checkpoint was being written."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "local-disk-full"
NEEDLE = "No space left on device"
_FULL = re.compile(NEEDLE)
_LOCAL = re.compile(
    r"spark\.shuffle|\.spill|[Ss]pill(?:able|ing)|DiskBlockObjectWriter|TimeTrackingOutputStream|BlockManager|DiskStore"
    r"|execution\.columnar|util\.collection|broadcast|runtime\.io\.disk|FileIOChannel|BlobServer"
    r"|BlobUtils|FileCache|Lost task \d|Exception in task \d"
)
_SUBMITTING = re.compile(r"deploy\.yarn\.Client|initializing SparkContext|prepareLocalResources")
_CHECKPOINT = re.compile(
    r"hadoop\.(?:fs|hdfs)\.|[Cc]heckpoint|[Ss]tate ?[Ss]tore|RocksDB|HDFSBacked|HDFSMetadataLog|chk-\d|[Ss]napshot"
)


def of_a_worker(event: LogEvent) -> str | None:
    """What was being written, if it was no checkpoint."""
    text = "\n".join((whole(event), *event.frames))
    if _CHECKPOINT.search(text):
        return None
    return "submitting" if _SUBMITTING.search(text) else "local" if _LOCAL.search(text) else None


def _recognise(event: LogEvent) -> Clue | None:
    written = of_a_worker(event)
    return Clue(shown(event, link_with(event, _FULL)), written) if written else None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a task failed because a worker's own disk is full",
    rules=(Rule(CODE, (NEEDLE,), _recognise),),
    causes=(
        Cause(
            "submitting",
            "the temporary directory of the process that submits the application is full",
            Fix(
                spark=("spark.local.dir=<a directory with room>", "# or TMPDIR, and -Djava.io.tmpdir, of that process")
            ),
            for_variant("submitting", weight=55),
        ),
        Cause(
            "shuffle-and-spill",
            "what a worker writes besides checkpoints fills its disk: shuffle files, spilled rows, cached blocks, "
            "jars. df often shows another volume, or the disk after the files were deleted again",
            Fix(
                flink=("io.tmp.dirs: <a directory with room>", "# a volume of its own for it, on each TaskManager"),
                spark=(
                    "spark.local.dir=<a directory with room, on each executor>",
                    "# on YARN: yarn.nodemanager.local-dirs; on Kubernetes: a volume named spark-local-dir-1",
                    "# more executors: less on each disk",
                ),
                holdfast=("# the query is restarted: restart_attempts, restart_delay",),
            ),
            always(50),
        ),
    ),
)
