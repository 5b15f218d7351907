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
