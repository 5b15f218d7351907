"""Conformance suites for stores and sinks, for tests of holdfast and of others.

Imports everything below `cli`; nothing of holdfast imports it. Public: the same version policy applies as to the
Python names of `holdfast`.
"""
