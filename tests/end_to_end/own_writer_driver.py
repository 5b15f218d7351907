"""A driver whose query has a writer of its own: numbers of the rate source, without duplicates, into Spark's file sink.

python -m tests.end_to_end.own_writer_driver ROOT stateless|stateful
"""

import logging
import sys
from pathlib import Path

import holdfast


def main(root: Path, kind: str) -> None:
    def numbers(spark):  # type: ignore[no-untyped-def]
        rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
        if kind == "stateful":
            rows = rows.withWatermark("timestamp", "10 seconds").dropDuplicatesWithinWatermark(["value"])
        return rows.writeStream.format("json").option("path", str(root / "out")).trigger(processingTime="0 seconds")

    holdfast.run(
        numbers,
        job="numbers",
        home=f"file://{root / 'home'}",
        work=root / "work",
        interval="3s",
        identity="the-only-one",
        plans="require",
    )


if __name__ == "__main__":
    logging.basicConfig()
    logging.getLogger("holdfast").setLevel(logging.INFO)
    main(Path(sys.argv[1]), sys.argv[2])
