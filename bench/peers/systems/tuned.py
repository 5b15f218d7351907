"""Spark tuned as holdfast's jobs are: changelogs, and the quick way of writing files."""

from __future__ import annotations

from bench.peers.systems.spark import PlainSpark


class Tuned(PlainSpark):
    name = "tuned"
    title = "Spark tuned alike"
