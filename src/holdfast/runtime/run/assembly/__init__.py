"""Assembles a run from three parts: storage and journal, checkpointing, the query. All goes through constructors.

`components` says what each part consists of; `launching` uses them in this order. Decides and performs nothing.
"""
