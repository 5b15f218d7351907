"""Copies the files of a barrier into the home: in threads of this process, or in other processes.

Imports `repository`, `workdir` and below. Never decides when a checkpoint is taken.
"""
