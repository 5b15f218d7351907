"""Which engine wrote an event, and its version."""

import re

from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import whole

FLINK = "flink"
SPARK = "spark"

_PACKAGES = (("org.apache.flink", FLINK), ("org.apache.spark", SPARK), ("spark-kafka-", SPARK))
"""The last is how Spark names its consumers' groups."""
_SPARK_LOGGERS = frozenset(
    [
        "MicroBatchExecution",
        "StreamExecution",
        "TaskSetManager",
        "TaskSchedulerImpl",
        "DAGScheduler",
        "Executor",
        "SparkContext",
        "YarnAllocator",
        "YarnSchedulerBackend",
        "ExecutorPodsAllocator",
        "BlockManagerMasterEndpoint",
        "HeartbeatReceiver",
        "TransportChannelHandler",
        "TransportResponseHandler",
        "YarnScheduler",
        "YarnClusterScheduler",
        "StandaloneSchedulerBackend",
        "CoarseGrainedSchedulerBackend",
        "CoarseGrainedExecutorBackend",
        "ProcessingTimeExecutor",
        "HDFSBackedStateStoreProvider",
        "RocksDBStateStoreProvider",
        "RocksDB",
        "RocksDBFileManager",
        "StateStore",
        "CheckpointFileManager",
        "HDFSMetadataLog",
        "WatermarkTracker",
        "ContextCleaner",
        "TorrentBroadcast",
        "KafkaMicroBatchStream",
        "KafkaOffsetReaderAdmin",
        "KafkaDataConsumer",
        "ApplicationMaster",
        "ExecutorRemoved",
        "ExecutorAdded",
        "TaskEnd",
        "StageCompleted",
        "JobEnd",
        "ApplicationStart",
        "ApplicationEnd",
        "QueryProgressEvent",
        "QueryStartedEvent",
        "QueryTerminatedEvent",
        "QueryIdleEvent",
    ]
)
_SPARK_ENDINGS = ("SchedulerBackend", "TaskSchedulerImpl", "TaskSetManager", "ClusterScheduler", "Execution")


_WORDS_OF_SPARK = re.compile(
    r"Lost executor |ExecutorLostFailure|\bin stage \d+\.\d+ \(TID |\[STREAM_FAILED\]|\"batchId\"|\bDStreams?\b"
    r"|Initial job has not accepted any resources"
)


def engine_of(event: LogEvent) -> str:
    logger = event.logger or ""
    if engine := _by_package(logger):
        return engine
    name = logger.rpartition(".")[2].rpartition("$")[2]
    if name in _SPARK_LOGGERS or name.endswith(_SPARK_ENDINGS) or is_a_method_of_spark(logger):
        return SPARK
    for name in (*(link.class_name for link in event.exceptions), *event.frames):
        if engine := _by_package(name):
            return engine
    text = whole(event)
    return _by_package(text) or (SPARK if _WORDS_OF_SPARK.search(text) else "")


def is_a_method_of_spark(logger: str) -> bool:
    """`TaskSchedulerImpl.logExecutorLoss`: patterns with the class and the method in the place of the logger."""
    name, _, method = logger.partition(".")
    return name in _SPARK_LOGGERS and method.isidentifier() and method[:1].islower()


def _by_package(name: str) -> str:
    for package, engine in _PACKAGES:
        if package in name:
            return engine
    return ""
