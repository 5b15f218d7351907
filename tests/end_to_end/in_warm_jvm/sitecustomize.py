"""Run by Python at the start of each driver in a warm JVM: no driver before had its numbers for Python objects.

The JVM lets go of a dead driver's Python objects by their numbers, some time later, and tells whoever is connected
then. Each driver would count from 0, so the next one would lose objects of its own: "Object ID unknown".
"""

import time

from py4j.java_gateway import PythonProxyPool

_begin = PythonProxyPool.__init__


def _begin_at_a_number_of_its_own(pool: PythonProxyPool) -> None:
    _begin(pool)
    pool.next_id = time.time_ns()


PythonProxyPool.__init__ = _begin_at_a_number_of_its_own
