"""A task failed because it was still writing a checkpoint that had been discarded.

It shows as a write that failed; only the checkpoint's id tells the two apart.
"""

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_context
from holdfast.doctor.findings.snapshot_write_failed import CODE as WRITE_FAILED
from holdfast.doctor.findings.snapshot_write_failed import was_given_up
from holdfast.doctor.matching.case import CONTEXT

CODE = "discarded-checkpoint-failed-task"

_FIX = Fix(
    flink=(
        "execution.checkpointing.tolerable-failed-checkpoints: 3",
        "# before 1.9: env.getCheckpointConfig().setFailOnCheckpointingErrors(false)",
        "# from 1.9 on the coordinator ignores failures of checkpoints that it gave up: upgrade",
    ),
    spark=("# plain Spark has no discarded checkpoints",),
    holdfast=("# nothing is deleted because a checkpoint was given up; its blobs are reused by the next one",),
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a task failed while it wrote a checkpoint that the coordinator had already given up",
    rules=(),
    causes=(
        Cause(
            "declined-elsewhere",
            "one task declined the checkpoint, the coordinator deleted its directory at once, and another task "
            "that was "
            "still writing into it failed and took the job down",
            _FIX,
            for_context(CONTEXT + "given-up", "declined", weight=60),
        ),
        Cause(
            "discarded",
            "the coordinator deleted the directory of a checkpoint that it had given up while a task was still writing "
            "into it",
            _FIX,
            always(),
        ),
    ),
    references=("FLINK-11662", "FLINK-10724"),
    seen_as=WRITE_FAILED,
    enough=was_given_up,
)
