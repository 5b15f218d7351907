"""The query within a run: started, watched, restarted by policy, moved to the next candidate.

Imports `recovery` and `reports`. Never imports PySpark: it sees Spark only as texts and through `ports`.
"""
