"""A job with a table of its own goes back, in one process: what is refused and shown, what the table has at the end.

python -m tests.end_to_end.own_table_driver ROOT delta|iceberg
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import holdfast
from holdfast.errors import Conflict
from tests.end_to_end.own_writer_driver import SCHEMA, TABLE, Writers


class Job:
    def __init__(self, root: Path, writer: str) -> None:
        self._root = root
        self._writer = writer
        self._writers = Writers(root)
        self.spark = SparkSession.builder.getOrCreate()
        self._files = 0

    def put(self, *values: int) -> None:
        self._files += 1
        lines = [json.dumps({"value": value, "timestamp": "2026-01-01T00:00:00Z"}) for value in values]
        (self._root / "in" / f"{self._files}.json").write_text("\n".join(lines))

    def run(self, **options: Any) -> str:
        """Until its input is used up. The hint of a refusal, "" when there was none."""
        try:
            holdfast.start(
                self._numbers().trigger(availableNow=True),
                job="numbers",
                home=f"file://{self._root / 'home'}",
                work=self._root / "work",
                spark=self.spark,
                interval="1h",
                **options,
            ).await_termination()
        except Conflict as error:
            return f"{error.message} {error.hint}"
        return ""

    def _numbers(self) -> Any:
        reader = self.spark.readStream.format("json").schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return getattr(self._writers, self._writer)(reader.load(str(self._root / "in")))

    def versions(self) -> list[tuple[int, str]]:
        """Of the table, the newest first, and when each was made."""
        rows = self.spark.sql(f"DESCRIBE HISTORY delta.`{self._root / 'out'}`").collect()
        return [(row.version, str(row.timestamp)) for row in rows]

    def restore(self, which: str) -> None:
        self.spark.sql(f"RESTORE TABLE delta.`{self._root / 'out'}` TO {which}")

    def checkpoint_of_before(self) -> int:
        """The newest one but one."""
        return holdfast.open(f"file://{self._root / 'home'}").job("numbers").checkpoints()[1].id

    def rows(self) -> list[int]:
        if self._writer == "iceberg":
            self.spark.sql(f"REFRESH TABLE {TABLE}")
        return self._writers.read(self._writer)


def main(root: Path, writer: str) -> dict[str, Any]:
    job = Job(root, writer)
    job.put(1)
    job.put(2)
    told: dict[str, Any] = {"first": job.run()}
    job.put(3)
    job.put(4)
    told["second"] = job.run()
    told["refused"] = job.run(from_checkpoint=1)
    command = told["refused"].partition("then start again: ")[2].partition(". If their rows")[0]
    job.spark.sql(command)
    told["taken back"] = job.rows()
    told["back"] = job.run(from_checkpoint=1)
    told["again"] = job.rows()
    job.put(5)
    told["third"] = job.run()
    told["at the end"] = job.rows()
    if writer == "delta":
        told |= restored(job)
    return told


def restored(job: Job) -> dict[str, Any]:
    """Somebody restores versions of the table while the job is down: before its last batch, by time, and back."""
    versions = job.versions()
    job.restore(f"VERSION AS OF {versions[1][0]}")
    told: dict[str, Any] = {"lacks": job.run(), "shown then": job.rows()}
    job.restore(f"VERSION AS OF {versions[0][0]}")
    told["whole again"] = job.run()
    job.restore(f"TIMESTAMP AS OF '{versions[1][1]}'")
    told["lacks by time"] = job.run()
    told["gone back"] = job.run(from_checkpoint=job.checkpoint_of_before())
    told["in the end"] = job.rows()
    return told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), sys.argv[2])) + "\n")
