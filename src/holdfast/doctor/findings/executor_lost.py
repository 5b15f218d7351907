"""A worker was lost: an executor of Spark, a TaskManager of Flink."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_context, for_variant
from holdfast.doctor.matching.case import CONTEXT
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "executor-lost"
_WANTED = re.compile(
    r"idle for|killed by driver|explicit termination request|exited with code 0\b|kill(?:ed)? request|shutdown hook"
    r"|because: (?:.*finished|.*idle timeout)|has been stopped|dynamic allocation|is shutting down|no longer needed"
)
_KILLED = re.compile(r"[Ee]xit(?:ed)?(?: with)?(?: exit)?(?: code| status)?:? (?:is )?137\b|SIGKILL")
_BY_EXIT_CODE = {
    "1": "ended",
    "143": "asked",
    "134": "crashed",
    "139": "crashed",
    "53": "local-disk",
    "50": "uncaught",
    "51": "uncaught",
    "55": "local-disk",
    "56": "heartbeat",
}
_EXIT_CODE = re.compile(
    r"[Ee]xit(?:ed)?(?: with)?(?: a non-zero)?(?: exit)? ?(?:[Cc]ode|status)?:? (?:is )?(\d{1,3})\b"
)
_HEARTBEAT = re.compile(
    r"[Hh]eartbeat|no longer reachable|Remote RPC client disassociated|remote task manager was lost"
)
_TAKEN = re.compile(
    r"decommission|preempt|status: -10[02]\b|\*lost\* node|\bspot\b"
    r"|deleted by a user|deleted or lost|node.{0,20}(?:lost|terminated|not ready)|evicted",
    re.IGNORECASE,
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if _WANTED.search(text) or ("eartbeat of" in text and "timed out" not in text):
        return None
    if "did not exit gracefully" in text:
        return Clue(shown(event), "stuck")
    if _TAKEN.search(text):
        return Clue(shown(event), "taken")
    if _KILLED.search(text):
        return Clue(shown(event), "killed")
    if (ended := _EXIT_CODE.search(text)) and ended[1] in _BY_EXIT_CODE:
        return Clue(shown(event), _BY_EXIT_CODE[ended[1]])
    return Clue(shown(event), "heartbeat" if _HEARTBEAT.search(text) else "")


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a worker was lost while the job ran",
    rules=(
        Rule(
            CODE,
            (
                "Lost executor",
                "Container killed on request",
                "Container exited with a non-zero exit code",
                "Executor heartbeat timed out after",
                "ExecutorLostFailure",
                "with no recent heartbeats",
                "eartbeat of TaskManager with id",
                "is no longer reachable",
                "TaskManager was lost/killed",
                "Closing TaskExecutor connection",
                "Lost connection to task manager",
                "remote task manager was lost",
                "is now LOST",
                "code 137",
                "status: 137",
                "code is 137",
                "Executor Process Lost",
                "worker lost",
                "Marking as slave lost",
                "Marking as agent lost",
                "Worker lost",
                "did not exit gracefully within",
                "removed: Command exited with code ",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "taken",
            "the platform removed the node or pod: spot instance, pre-emption, drain or decommissioning",
            Fix(
                flink=("# run the JobManager on permanent nodes; restart-strategy.type: exponential-delay",),
                spark=(
                    "spark.decommission.enabled=true",
                    "spark.storage.decommission.enabled=true",
                    "# run the driver on permanent nodes",
                ),
                holdfast=('restart_delay="1s"', "# state of the lost node is restored from the newest checkpoint"),
            ),
            for_variant("taken", weight=60),
        ),
        Cause(
            "stuck",
            "a task did not end when it was cancelled, so Flink shut down its TaskManager and all tasks there",
            Fix(
                flink=(
                    "task.cancellation.timeout: 600000",
                    "# blocking code must return when its thread is interrupted; the log names the method it blocks in",
                ),
            ),
            for_variant("stuck", weight=65),
        ),
        Cause(
            "killed",
            "the worker was killed from outside (SIGKILL, exit code 137): most often by the kernel or the platform "
            "because it exceeded its memory limit, else by hand",
            Fix(
                flink=(
                    "taskmanager.memory.process.size: <half as much again>",
                    "taskmanager.memory.jvm-overhead.fraction: 0.2",
                    "# the kernel's log on that host shows whether memory was the reason",
                ),
                spark=(
                    "spark.executor.memoryOverhead=2g",
                    "# the kernel's log on that host shows whether memory was the reason",
                ),
                holdfast=("# the query is restarted: restart_attempts, restart_delay",),
            ),
            for_variant("killed", weight=58),
        ),
        Cause(
            "asked",
            "the worker was asked to end (SIGTERM, exit code 143): by YARN, Kubernetes or a drain",
            Fix(
                flink=("# the log of the NodeManager, the kubelet or the spot service at that time names who asked",),
                spark=(
                    "# the log of the NodeManager, the kubelet or the spot service at that time names who asked",
                    "spark.decommission.enabled=true",
                ),
                holdfast=("# the query is restarted: restart_attempts, restart_delay",),
            ),
            for_variant("asked", weight=52),
        ),
        Cause(
            "crashed",
            "native code crashed (exit code 134 or 139): RocksDB, a codec, a driver or the JVM itself",
            Fix(
                flink=("# hs_err_pid<number>.log in the working directory names the library",),
                spark=("# hs_err_pid<number>.log in the executor's working directory names the library",),
            ),
            for_variant("crashed", weight=54),
        ),
        Cause(
            "local-disk",
            "the executor could not create its local directory (exit code 53): the disk is full, or not writable",
            Fix(spark=("spark.local.dir=<a writable directory with room>",)),
            for_variant("local-disk", weight=54),
        ),
        Cause(
            "uncaught",
            "an exception that nobody caught ended the executor (exit code 50 or 51); it is at the end of its own log",
            Fix(spark=("# look at the end of that executor's stderr for the exception",)),
            for_variant("uncaught", weight=45),
        ),
        Cause(
            "ended",
            "the process ended by itself (exit code 1): it could not start, because of its memory options, class path "
            "or Java version, or it could not reach the driver; its own log shows which",
            Fix(
                flink=("# look at the end of the log of that process: .err and prelaunch.err, too",),
                spark=(
                    "spark.driver.host=<an address that the workers reach>",
                    "# look at the end of that executor's stderr",
                ),
            ),
            for_variant("ended", weight=35),
        ),
        Cause(
            "pause",
            "the worker paused in garbage collection for longer than its heartbeat time-out",
            Fix(
                flink=("taskmanager.memory.process.size: <half as much again>", "heartbeat.timeout: 120000"),
                spark=("spark.executor.memory=<half as much again>", "spark.network.timeout=300s"),
            ),
            for_context(CONTEXT + "pause", weight=55),
        ),
        Cause(
            "heartbeat",
            "the worker's heartbeats stopped: it crashed, paused, or lost its network connection",
            Fix(
                flink=(
                    "heartbeat.timeout: 120000",
                    "# check the end of that TaskManager's own log, and its exit code",
                ),
                spark=(
                    "spark.network.timeout=300s",
                    "spark.executor.heartbeatInterval=20s",
                    "# check the end of that executor's own log, and its exit code",
                ),
                holdfast=("# the query is restarted: restart_attempts, restart_delay",),
            ),
            for_variant("heartbeat", weight=40),
        ),
        Cause(
            "died",
            "the worker's process ended; its exit code and the end of its own log show why",
            Fix(
                flink=("restart-strategy.type: exponential-delay",),
                spark=("spark.task.maxFailures=8", "# check the end of that executor's own log"),
                holdfast=("# the query is restarted: restart_attempts, restart_delay",),
            ),
            always(),
        ),
    ),
    heals=True,
)
