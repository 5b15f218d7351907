"""The command line: one module per command, and their output.

Imports everything. Never decides anything about a checkpoint.
"""
