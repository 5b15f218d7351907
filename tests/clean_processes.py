"""Processes for tests that need several: forked by a server of their own, never by the process of the tests.

That one has threads: those of xdist, of the stores' clients, of py4j. A fork copies the locks that they hold at that
moment and not the threads that would release them, so that the child waits for ever, now and then.
"""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
# What takes long to import is imported once. None of it starts a thread.
FORKS.set_forkserver_preload(["pytest", "tests.unit.churning_runs", "tests.simulation.runs"])
