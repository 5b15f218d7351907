"""The command line: one module per command, and how it talks.

Imports everything. Never decides anything about a checkpoint.
"""
