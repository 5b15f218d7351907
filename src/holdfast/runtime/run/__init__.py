"""One run of a job, from the preflight to its last entry: assembled, recovered, driven by the loop.

Imports every other sub-package but `commands`. Never makes a blocking call on the thread that decides.
"""
