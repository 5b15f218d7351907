"""Conformance suites for stores and sinks, for tests of holdfast and of others.

Public: the same version policy applies as to the Python names of `holdfast`.
"""
