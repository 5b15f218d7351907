"""A worker or driver ran out of memory."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "out-of-memory"
_OOM = re.compile(r"OutOf(?:Direct)?Memory|OUT_OF_MEMORY|OOM")
_DIRECT = re.compile(r"[Dd]irect buffer|OutOfDirectMemory|of direct memory")
_NETWORK = re.compile(r"Insufficient number of network buffers")
_THREADS = re.compile(r"unable to create (?:new )?native thread|pthread_create failed")
_RESULTS = re.compile(r"bigger than (?:local )?(?:\S+ )?spark\.driver\.maxResultSize")
_MANAGED = re.compile(r"MemoryAllocationException|MemoryReservationException")
_CONTAINER = re.compile(
    r"OOMKilled|for exceeding (?:physical |virtual )?memory limits|beyond (?:the )?.{0,40}memory limit"
    r"|possible container OOM"
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    link = link_with(event, _OOM)
    if _NETWORK.search(text):
        return Clue(shown(event, link_with(event, _NETWORK)), "network")
    for name, pattern in (("threads", _THREADS), ("results", _RESULTS), ("managed", _MANAGED)):
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    if "Metaspace" in text:
        return Clue(shown(event, link), "metaspace")
    if _DIRECT.search(text):
        return Clue(shown(event, link), "direct")
    if _CONTAINER.search(text):
        return Clue(shown(event, link), "container")
    return Clue(shown(event, link), "heap") if _OOM.search(text) or "GC overhead limit exceeded" in text else None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a process ran out of memory",
    rules=(
        Rule(
            CODE,
            (
                "OutOfMemoryError",
                "Insufficient number of network buffers",
                "OutOfDirectMemoryError",
                "of direct memory (used",
                "OOMKilled",
                "possible container OOM",
                "memory limits",
                "running beyond physical memory limits",
                "running beyond virtual memory limits",
                "killed by YARN for exceeding",
                "memory limit. ",
                "OUT_OF_MEMORY",
                "GC overhead limit exceeded",
                "spark.driver.maxResultSize",
                "MemoryAllocationException",
                "MemoryReservationException",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "container",
            "the container exceeded its memory limit (RocksDB, Python workers and buffers are outside the heap) and "
            "was killed",
            Fix(
                flink=(
                    "taskmanager.memory.process.size: <half as much again>",
                    "taskmanager.memory.jvm-overhead.fraction: 0.2",
                    "state.backend.rocksdb.memory.managed: true",
                ),
                spark=(
                    "spark.executor.memoryOverhead=2g",
                    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage=true",
                    "spark.executor.pyspark.memory=1g",
                ),
                holdfast=("# copying needs bounded memory per shard, however large the state is",),
            ),
            for_variant("container"),
        ),
        Cause(
            "network",
            "a TaskManager has fewer network buffers than its tasks need: the parallelism, or the number of shuffles, "
            "is too large for its network memory",
            Fix(
                flink=(
                    "taskmanager.memory.network.fraction: 0.2",
                    "taskmanager.memory.network.max: 2g",
                    "taskmanager.network.memory.read-buffer.required-per-gate.max: 1",
                    "# or fewer slots per TaskManager, or a lower parallelism",
                ),
            ),
            for_variant("network", weight=60),
        ),
        Cause(
            "direct",
            "the memory for network buffers outside the heap is used up",
            Fix(
                flink=(
                    "taskmanager.memory.task.off-heap.size: 256m",
                    "taskmanager.memory.framework.off-heap.size: 256m",
                ),
                spark=(
                    "spark.executor.extraJavaOptions=-XX:MaxDirectMemorySize=1g",
                    "spark.executor.memoryOverhead=2g",
                ),
            ),
            for_variant("direct"),
        ),
        Cause(
            "threads",
            "the process may start no more threads: the limit of its user or container is reached, or threads leak; a "
            "larger heap makes it worse",
            Fix(
                flink=(
                    "# ulimit -u of its user, pids.max of its cgroup; on Kubernetes: podPidsLimit of the kubelet",
                    "taskmanager.numberOfTaskSlots: <fewer>",
                    "env.java.opts.taskmanager: -Xss512k",
                ),
                spark=(
                    "# ulimit -u of its user, pids.max of its cgroup; on Kubernetes: podPidsLimit of the kubelet",
                    "spark.executor.cores=<fewer>",
                    "spark.executor.extraJavaOptions=-Xss512k",
                ),
            ),
            for_variant("threads", weight=62),
        ),
        Cause(
            "results",
            "the results of all tasks together are larger than the driver accepts: collect(), toPandas(), a broadcast, "
            "or very many tasks",
            Fix(
                spark=(
                    "spark.driver.maxResultSize=4g",
                    "spark.driver.memory=<more than that>",
                    "# write results instead of collecting them; fewer spark.sql.shuffle.partitions for a new query",
                )
            ),
            for_variant("results", weight=62),
        ),
        Cause(
            "managed",
            "the managed memory of a TaskManager is used up: RocksDB, sorting and Python share it, by slot",
            Fix(
                flink=(
                    "taskmanager.memory.managed.fraction: 0.6",
                    "taskmanager.memory.process.size: <half as much again>",
                    "taskmanager.numberOfTaskSlots: <fewer>",
                )
            ),
            for_variant("managed", weight=60),
        ),
        Cause(
            "metaspace",
            "classes are loaded again with each restart and never unloaded",
            Fix(
                flink=(
                    "taskmanager.memory.jvm-metaspace.size: 512m",
                    "# put the connector jars into lib/ instead of the job's jar",
                ),
                spark=("spark.driver.extraJavaOptions=-XX:MaxMetaspaceSize=512m",),
            ),
            for_variant("metaspace"),
        ),
        Cause(
            "heap",
            "the heap is too small for the job's state and data",
            Fix(
                flink=(
                    "taskmanager.memory.process.size: <half as much again>",
                    "state.backend.type: rocksdb",
                    "state.backend.incremental: true",
                ),
                spark=(
                    "spark.executor.memory=<half as much again>",
                    "spark.sql.streaming.stateStore.providerClass="
                    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
                ),
                holdfast=("# a change of the state store provider needs a new job name: it cannot read the old state",),
            ),
            always(),
        ),
    ),
    references=("Flink docs: Set up TaskManager Memory", "Spark docs: spark.executor.memoryOverhead"),
)
