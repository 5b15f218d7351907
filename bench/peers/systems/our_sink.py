"""holdfast with its own sink of files."""

from __future__ import annotations

from pathlib import Path

from bench.peers.setting import Setting
from bench.peers.systems.spark import OnHoldfast


class OurSink(OnHoldfast):
    name = "our-sink"
    title = "holdfast, Files sink"

    def visible(self, setting: Setting) -> list[Path]:
        return sorted(setting.output.glob("*.parquet"))

    def margin(self, interval_s: float) -> int:
        return round(2 * interval_s)  # the files of a checkpoint get their names one after the other
