"""Spark as it comes: RocksDB for the state, everything else at its default."""

from __future__ import annotations

from bench.peers.systems.spark import PlainSpark


class Plain(PlainSpark):
    name = "plain"
    title = "Spark as it comes"
