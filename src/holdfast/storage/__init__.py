"""Object stores, behind one interface with three-valued writes, and the decorators around them.

Imports nothing of holdfast but words and errors. Never knows what a journal or a checkpoint is.
"""
