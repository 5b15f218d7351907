"""Plans of batches in a run: made durable before the query's own writer sees the batch, repeated before the query goes
on.

Imports `ports` and the layers below the runtime. The rules of repeating are `holdfast.plans`. Never touches
Spark.
"""
