"""The JVM that drivers share serves the next one, whenever the last one died."""

import os
import subprocess
import sys

import pytest

from tests.end_to_end.harness import WARM_JVM

_WITHOUT_A_SESSION = "SparkContext(conf=conf); os._exit(0)"
_WHILE_ONE_IS_MADE = "signal.setitimer(signal.ITIMER_REAL, 0.02); SparkContext(conf=conf)"


_BEGINS = """
import os, signal
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[1]").setAppName("one")
"""


def _driver(program: str) -> int:
    environment = {**os.environ, **WARM_JVM.environment()}
    return subprocess.run([sys.executable, "-c", _BEGINS + program], env=environment, check=False).returncode


@pytest.mark.parametrize("death", [_WITHOUT_A_SESSION, _WHILE_ONE_IS_MADE], ids=["no session", "no context"])
def test_a_driver_that_died_while_it_began_leaves_no_spark_context(death: str) -> None:
    _driver(death)

    assert _driver("SparkContext(conf=conf).stop()") == 0
