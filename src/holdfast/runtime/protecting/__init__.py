"""A run beside a query that somebody else runs, in any language, unchanged: it checkpoints the query's directory.

Coordinator, lanes, retention, alarms and history are those of any run. Imports `run` and what is below it. Never writes
into the query's directory or beside it, and never decides what the query does.
"""
