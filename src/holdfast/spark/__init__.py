"""Everything that calls Spark: the session, the query, executors that copy, `holdfast.run` and `holdfast.start`.

Imports `runtime` and below, and implements what it needs of Spark (`runtime/ports.py`). Never decides about
checkpoints.
"""
