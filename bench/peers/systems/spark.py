"""Plain Spark and holdfast on Spark, as processes of `bench.peers.systems.spark_life`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import ClassVar

import msgspec
import pyarrow.parquet as parquet
import pyspark

from bench.peers.pipeline import Group
from bench.peers.setting import JOB, Setting
from bench.peers.systems.system import Checkpoint, Processes, Progress
from holdfast.checkpoint.manifest import decode_manifest, manifest_key
from holdfast.home import Job
from holdfast.home import open as open_home
from holdfast.identifiers import Digest


class OnSpark:
    name: ClassVar[str]
    title: ClassVar[str]

    def version(self) -> str:
        return f"PySpark {pyspark.__version__}"

    def start(self, setting: Setting) -> Processes:
        setting.make_folders()
        command = [sys.executable, "-m", "bench.peers.systems.spark_life", self.name]
        environment = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
        environment |= {"SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
        setting.progress.unlink(missing_ok=True)
        return Processes.of([[*command, msgspec.json.encode(setting).decode()]], setting.log, environment)

    def start_by_hand(self, setting: Setting) -> Processes | None:
        return None

    def progress(self, setting: Setting, life: Processes) -> Progress | None:
        told = self._told(setting)
        return told[-1] if told else None

    def _told(self, setting: Setting) -> list[Progress]:
        try:
            lines = setting.progress.read_bytes().splitlines(keepends=True)
        except FileNotFoundError:
            return []
        return [msgspec.json.decode(line, type=Progress) for line in lines if line.endswith(b"\n")]

    def full_checkpoint(self, setting: Setting, life: Processes) -> None:
        return None

    def restarts(self, setting: Setting) -> int:
        told = self._told(setting)
        return max((each.restarts for each in told), default=0)

    def worker(self, life: Processes) -> int:
        command = ["ps", "-s", str(life.main.pid), "-o", "pid=,args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
        rows = (line.split(None, 1) for line in listed.stdout.splitlines())
        return next(int(pid) for pid, arguments in rows if "CoarseGrainedExecutorBackend" in arguments)

    def replace_worker(self, setting: Setting, life: Processes) -> None:
        return None  # Spark's own worker starts another executor

    def written(self, setting: Setting) -> set[str]:
        return {str(path) for path in setting.output.rglob("*.parquet") if path.stat().st_size}

    def margin(self, interval_s: float) -> int:
        return 1  # the rows of a batch are visible together

    def rows(self, file: Path) -> Iterator[Group]:
        for row in parquet.ParquetFile(file).read().to_pylist():
            yield Group(row["second"], row["customer"], row["orders"], row["total"])


class PlainSpark(OnSpark):
    """Output by Spark's own file sink, exactly once."""

    def checkpoints(self, setting: Setting, life: Processes) -> list[Checkpoint]:
        """Each batch is one; a file counts for the batch in its name, snapshots apart."""
        took = [each.commit_s for each in self._told(setting) if each.commit_s is not None]
        state = [path for path in setting.store.glob("state/0/*/*") if not path.name.startswith(".")]
        changes = [path.stat().st_size for path in state if path.suffix in (".changelog", ".delta")]
        snapshots = [path.stat().st_size for path in state if path.suffix == ".zip"]
        each = changes or snapshots
        partitions = len({path.parent for path in state}) or 1
        written = round(fmean(each) * partitions) if each else 0
        return [Checkpoint(seconds, written, full=False) for seconds in took]

    def visible(self, setting: Setting) -> list[Path]:
        """Spark's readers go by the log of the sink."""
        log = setting.output / "_spark_metadata"
        names: set[str] = set()
        for entry in log.glob("[0-9]*"):
            for line in entry.read_text().splitlines()[1:]:
                names.add(msgspec.json.decode(line)["path"])
        return [Path(name.removeprefix("file://")) for name in sorted(names)]

    def newest_bytes(self, setting: Setting) -> Path:
        """Its version is its name."""
        wanted = (".changelog", ".zip", ".delta")
        found = [path for path in setting.store.glob("state/0/*/*") if path.suffix in wanted and path.stem.isdigit()]
        return max(found, key=lambda path: (int(path.stem), path.stat().st_size))


class OnHoldfast(OnSpark):
    def checkpoints(self, setting: Setting, life: Processes) -> list[Checkpoint]:
        found = self._job(setting).checkpoints()
        done = sorted((each for each in found if each.completed_at is not None), key=lambda each: each.id or 0)
        return [
            Checkpoint((each.duration_ms or 0) / 1000, each.bytes_new or 0, full=number == 0)
            for number, each in enumerate(done)
        ]

    def newest_bytes(self, setting: Setting) -> Path:
        """The disk is gone, too: a start reads the checkpoint only then."""
        shutil.rmtree(setting.local / "work")
        newest = next(each for each in self._job(setting).checkpoints() if each.usable)
        detail = self._job(setting).checkpoint(newest.id or 0)
        assert detail.manifest is not None
        digest = Digest(detail.manifest)
        manifest = decode_manifest((setting.store / JOB / manifest_key(digest)).read_bytes(), digest)
        objects = {setting.store / JOB / file.key for shard in manifest.shards for file in shard.files}
        return max(objects, key=lambda path: path.stat().st_mtime)

    def _job(self, setting: Setting) -> Job:
        return open_home(f"file://{setting.store}").job(JOB)
