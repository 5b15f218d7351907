"""Whether this run still owns its job, and whether another one is alive.

Imports `clock`. Decides nothing: the journal does.
"""
