"""A job's home: journal, blobs, manifests, retention, verification.

Imports `storage`, `checkpoint`, `coordination`. Never touches Spark, and waits for nothing: clocks are given to it.
"""
