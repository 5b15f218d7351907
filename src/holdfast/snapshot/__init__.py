"""Spark's work directory as checkpoints need it: planned, pinned, copied, checked.

Imports `repository` and below. Never decides when a checkpoint is taken.
"""
