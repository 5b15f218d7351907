"""The log of planned batches: what a batch id stands for, durable before a sink sees the batch; and how it is repeated.

Imports the repository and what is below it. Knows nothing of Spark's API, only of the files that Spark writes.
"""
