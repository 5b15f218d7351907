"""Background work of the owner: retire, delete, scrub, load the index of uploaded objects.

Imports `checkpoints` and `requests`. Never deletes what the journal has not retired.
"""
