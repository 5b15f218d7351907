"""The faults, in the order of the page."""

from __future__ import annotations

from bench.peers.faults.fault import Fault
from bench.peers.faults.flipped_byte import FlippedByte
from bench.peers.faults.full import Full
from bench.peers.faults.killed_driver import KilledDriver
from bench.peers.faults.killed_worker import KilledWorker
from bench.peers.faults.short_timeout import ShortTimeout
from bench.peers.faults.two_deployments import TwoDeployments
from bench.peers.faults.unwritable import Unwritable

FAULTS: tuple[Fault, ...] = (
    Unwritable(),
    Full(),
    TwoDeployments(),
    KilledWorker(),
    KilledDriver(),
    FlippedByte(),
    ShortTimeout(),
)
