"""The life of the query within a run: started, watched, restarted by policy, moved to the next candidate.

Imports `recovery` and `reports`. Never imports PySpark; what it knows of Spark are texts and `ports`.
"""
