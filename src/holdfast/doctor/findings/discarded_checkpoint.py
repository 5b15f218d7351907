"""A task failed because it was still writing a checkpoint that had been discarded.

It looks like a failed write; only the checkpoint's id distinguishes the two.
"""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_context
from holdfast.doctor.findings.snapshot_write_failed import CODE as WRITE_FAILED
from holdfast.doctor.findings.snapshot_write_failed import only_told, was_aborted
from holdfast.doctor.matching.case import CONTEXT

CODE = "discarded-checkpoint-failed-task"

_FIX = Fix(
    flink=(
        "execution.checkpointing.tolerable-failed-checkpoints: 3",
        "# before 1.9: env.getCheckpointConfig().setFailOnCheckpointingErrors(false)",
        "# upgrade: from 1.9 on the coordinator ignores failures of checkpoints that it has aborted",
    ),
    spark=("# plain Spark has no discarded checkpoints",),
    holdfast=("# nothing is deleted when a checkpoint is aborted; the next one reuses its blobs",),
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a task failed while it wrote a checkpoint that the coordinator had already aborted",
    rules=(),
    causes=(
        Cause(
            "declined-elsewhere",
            "one task declined the checkpoint, the coordinator deleted its directory at once, and another task that "
            "was still writing to it failed, and with it the job",
            _FIX,
            for_context(CONTEXT + "aborted", "declined", weight=60),
        ),
        Cause(
            "discarded",
            "the coordinator deleted the directory of an aborted checkpoint while a task was still writing to it",
            _FIX,
            always(),
        ),
    ),
    references=("FLINK-11662", "FLINK-10724"),
    seen_as=WRITE_FAILED,
    enough=was_aborted,
    grade=only_told,
)
