"""The same query under plain Spark, as its documentation writes it: Spark's own sink, a `checkpointLocation`."""

from pathlib import Path

from orders import orders  # type: ignore[import-not-found]  # beside this file, in the demo's directory
from pyspark.sql import SparkSession

PLAIN = Path(__file__).parent / "plain"

if __name__ == "__main__":
    writer = orders(SparkSession.builder.getOrCreate()).writeStream.trigger(processingTime="1 second")
    places = {"path": str(PLAIN / "table"), "checkpointLocation": str(PLAIN / "checkpoint")}
    writer.format("parquet").options(**places).start().awaitTermination()
