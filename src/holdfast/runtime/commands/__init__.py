"""What commands do to a job that does not run: maintenance, copies, removal of leftovers.

Imports every other room. Never touches a work directory of a run or opens a sink to write.
"""
