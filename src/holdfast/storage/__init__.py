"""Object stores, behind one interface with three-valued writes, and the decorators around them.

Imports only `errors`. Contains nothing about journals or checkpoints.
"""
