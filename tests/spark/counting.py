"""A query that counts keys in files, and what it must answer after each batch."""

import os
import threading
from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from holdfast.checkpoint.manifest import Manifest, ManifestShard
from holdfast.identifiers import BatchId, CheckpointId, FencingEpoch
from holdfast.snapshot.carrier import ShardCopy
from tests.patience import PATIENCE

FILES = 26
KEYS = 7
EPOCH = FencingEpoch(1)
Counts = dict[int, int]


class Input:
    """Files that Spark reads one per batch, in order. Every file changes the count of every key."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.answers: list[Counts] = [{}]
        counts: Counter[int] = Counter()
        for number in range(FILES):
            keys = [key for key in range(KEYS) for _ in range(1 + (number * key) % 5)]
            counts.update(keys)
            self.answers.append(dict(counts))
            path = folder / f"{number:04}.json"
            path.write_text("".join(f'{{"key": {key}}}\n' for key in keys))
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


class Run:
    """A query that counts keys, and what it answered after each batch."""

    def __init__(self, spark: SparkSession, source: Input, work: Path, **trigger: object) -> None:
        self._changed = threading.Condition()
        self.answers: dict[int, Counts] = {}
        counted = (
            spark.readStream.schema("key INT")
            .option("maxFilesPerTrigger", 1)
            .json(str(source.folder))
            .groupBy("key")
            .count()
        )
        writer = counted.writeStream.outputMode("complete").option("checkpointLocation", str(work))
        self.query: StreamingQuery = writer.foreachBatch(self._answer).trigger(**trigger or NO_PAUSE).start()

    def _answer(self, batch: DataFrame, batch_id: int) -> None:
        answer = {row["key"]: row["count"] for row in batch.collect()}
        with self._changed:
            self.answers[batch_id] = answer
            self._changed.notify_all()

    def await_commit(self, batch_id: int) -> None:
        """A batch begins only after the one before it is committed."""
        with self._changed:
            assert self._changed.wait_for(lambda: batch_id + 1 in self.answers, timeout=PATIENCE), (
                self.query.exception()
            )


NO_PAUSE = {"processingTime": "0 seconds"}


def manifest_of(barrier: BatchId, copies: tuple[ShardCopy, ...]) -> Manifest:
    shards = tuple(ManifestShard(copy.shard, copy.files) for copy in copies)
    return Manifest(1, "counts", CheckpointId(1), barrier, EPOCH, shards)
