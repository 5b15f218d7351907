"""One run of a job: the loop that decides, the lanes that work, recovery, supervision, upkeep, commands.

Imports everything below it. Never imports PySpark: what it needs of Spark it gets through `ports`.
"""
