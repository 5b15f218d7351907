"""One run of a job, and commands that write to a stopped one. Shared modules are here; each task has a sub-package.

Imports everything below it. Never imports PySpark: it reaches Spark through `ports`.
"""
