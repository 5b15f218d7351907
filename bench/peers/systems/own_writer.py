"""holdfast with a writer of the user's: a batch is a directory, which a repeated batch replaces."""

from __future__ import annotations

from pathlib import Path

from bench.peers.setting import Setting
from bench.peers.systems.spark import OnHoldfast


class OwnWriter(OnHoldfast):
    name = "own-writer"
    title = "holdfast, own writer"

    def visible(self, setting: Setting) -> list[Path]:
        return sorted(setting.output.glob("batch=*/*.parquet"))
