"""What the owner does in the background: retire, delete, read back, load the index of what is uploaded.

Imports `checkpoints` and `requests`. Never deletes what the journal has not retired.
"""
