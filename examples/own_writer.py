"""A writer of your own, here to SQLite, exactly once: holdfast makes a batch id mean the same rows.

    python examples/own_writer.py

Kill it with `kill -9`, delete its work directories, start it again: after a crash the query resumes from the newest
checkpoint, and the batches after it run again with the same rows under the same ids. What the database has is not
written again.
"""

import logging
import sqlite3
import tempfile
from pathlib import Path

import holdfast

PLACE = Path(tempfile.gettempdir()) / "holdfast-examples"


def database():
    connection = sqlite3.connect(PLACE / "readings.db")
    connection.execute("CREATE TABLE IF NOT EXISTS readings (id INTEGER, sensor INTEGER)")
    connection.execute("CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY)")
    return connection


def newest_batch():
    """Where the sink is: holdfast asks before it repeats batches. None when there is none."""
    return database().execute("SELECT max(id) FROM batches").fetchone()[0]


def write(batch, batch_id):
    rows = [tuple(row) for row in batch.collect()]
    with database() as connection:  # one transaction: the rows and the id of their batch, or neither
        if connection.execute("SELECT 1 FROM batches WHERE id = ?", [batch_id]).fetchone():
            return
        connection.execute("INSERT INTO batches VALUES (?)", [batch_id])
        connection.executemany("INSERT INTO readings VALUES (?, ?)", rows)


def readings(spark):
    events = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    # A DataStreamWriter instead of a DataFrame: it has its own sink and trigger, so no `sink` is given below.
    return (
        events.selectExpr("value AS id", "value % 7 AS sensor")
        .writeStream.foreachBatch(write)
        .trigger(processingTime="1 second")
    )


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("holdfast").setLevel(logging.INFO)
    home = PLACE / "home"
    home.mkdir(parents=True, exist_ok=True)
    # `require`: no batch reaches the writer before the home has its plan.
    holdfast.run(
        readings,
        job="readings",
        home=f"file://{home}",
        interval="10s",
        plans="require",
        sink_position=newest_batch,
    )
