"""A writer of your own, here to SQLite: holdfast keeps the state and the offsets, the output is at least once.

    python examples/own_writer.py

After a crash the query resumes from the newest checkpoint, and the batches after it run again: with the same rows under
the same batch ids when their plans are in the home, else perhaps with other rows. So a writer of your own must accept
rows twice and skip no batch id: this one replaces rows by their key, which makes the result right.
"""

import logging
import sqlite3
import tempfile
from pathlib import Path

import holdfast

PLACE = Path(tempfile.gettempdir()) / "holdfast-examples"


def readings(spark):
    events = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    # A DataStreamWriter instead of a DataFrame: it has its own sink and trigger, so no `sink` is given below.
    return (
        events.selectExpr("value AS id", "value % 7 AS sensor")
        .writeStream.foreachBatch(write)
        .trigger(processingTime="1 second")
    )


def write(batch, batch_id):
    with sqlite3.connect(PLACE / "readings.db") as database:
        database.execute("CREATE TABLE IF NOT EXISTS readings (id INTEGER PRIMARY KEY, sensor INTEGER)")
        database.executemany("INSERT OR REPLACE INTO readings VALUES (?, ?)", [tuple(row) for row in batch.collect()])


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("holdfast").setLevel(logging.INFO)
    home = PLACE / "home"
    home.mkdir(parents=True, exist_ok=True)
    # The writer replaces rows, so it may get them again under batch ids that it has seen: `repeats` declares that.
    holdfast.run(readings, job="readings", home=f"file://{home}", interval="10s", repeats="accept")
