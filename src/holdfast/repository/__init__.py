"""A job's home: journal, blobs, manifests, retention, verification.

Imports `storage`, `checkpoint`, `coordination`. Never uses Spark and never waits; callers pass in the time.
"""
