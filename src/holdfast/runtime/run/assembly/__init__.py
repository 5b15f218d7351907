"""Assembles a run from three parts: storage and journal, checkpointing, the query. All goes through constructors.

Imports what `run` imports. `components` says what each part consists of. Never decides or performs anything.
"""
