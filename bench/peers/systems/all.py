"""The compared systems, in the order of the page."""

from __future__ import annotations

from bench.peers.systems.flink import Flink
from bench.peers.systems.our_sink import OurSink
from bench.peers.systems.own_writer import OwnWriter
from bench.peers.systems.plain import Plain
from bench.peers.systems.system import System
from bench.peers.systems.tuned import Tuned

SYSTEMS: tuple[System, ...] = (Flink(), Plain(), Tuned(), OwnWriter(), OurSink())
