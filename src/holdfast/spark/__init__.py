"""What only Spark can do: the session, the query, executors that copy, `holdfast.run` and `holdfast.start`.

Imports `runtime` and below, and gives it what it asks of Spark (`runtime/ports.py`). Never decides about checkpoints.
"""
