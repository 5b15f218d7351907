"""Spark's account of why a query ended: the chain of causes as Java prints it, innermost last.

PySpark's own text has only the outermost message, followed by the query's plan: a path or a literal in the plan could
be mistaken for the cause.
"""

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from holdfast.errors import HoldfastError


def failure_text(spark: SparkSession, query: StreamingQuery) -> str | None:
    """None when the query ended without an error."""
    caught = query._jsq.exception()
    if not caught.isDefined():
        return None
    printed = getattr(spark.sparkContext._jvm, "org.apache.spark.util.Utils").exceptionString
    return str(printed(caught.get().getCause()))


def exception_text(error: Exception) -> str:
    if chain := getattr(error, "_stackTrace", None):  # PySpark keeps it on Spark's own exceptions
        return str(chain)
    message = error.message if isinstance(error, HoldfastError) else str(error)
    return f"{type(error).__module__}.{type(error).__qualname__}: {message}"
