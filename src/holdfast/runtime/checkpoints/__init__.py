"""Performs the coordinator's commands about checkpoints, and reports each result as an event.

Imports `reports` and the layers below the runtime. Never decides whether a checkpoint counts: coordination does.
"""
