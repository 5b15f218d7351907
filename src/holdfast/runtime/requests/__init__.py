"""Requests from a command to the run that owns the job: both sides of the mailbox.

Imports `clock` and `lanes`. Never serves a request twice.
"""
