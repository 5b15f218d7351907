"""Commands on a job that does not run: maintenance, copies, removal of leftovers.

Imports every other sub-package. Never changes a work directory of a run or opens a sink to write.
"""
