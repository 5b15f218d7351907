"""Conformance suites for stores and sinks, for tests of holdfast and of others.

Public: what stands here is kept as the Python names of `holdfast` are.
"""
