"""One run of a job, and what commands do to one. Each room has a sub-package; what all rooms share stands here.

Imports everything below it. Never imports PySpark: what it needs of Spark it gets through `ports`.
"""
