"""What the outside does to a sink's directory, for `holdfast.testing.sinks`."""

from __future__ import annotations

import shutil
from pathlib import Path

from holdfast.sinks import StagedBatch


class OutsideOfDirectory:
    path: Path

    def everything(self) -> dict[str, tuple[int, int]]:
        found = (path for path in self.path.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    def copy(self) -> None:
        shutil.copytree(self.path, self._copy)

    def put_copy_back(self) -> None:
        self.empty()
        shutil.copytree(self._copy, self.path)

    def empty(self) -> None:
        shutil.rmtree(self.path)

    def lose(self, staged: StagedBatch) -> None:
        (self.path / staged.files[0].path).unlink()

    @property
    def _copy(self) -> Path:
        return self.path.with_name("copy")
