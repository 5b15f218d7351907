"""One run of a job, from the preflight to its last entry: put together, recovered, driven by the loop.

Imports every other room but `commands`. Never calls anything that can block on the thread that decides.
"""
