"""The paths of one demo."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import InvalidSettings

JOB = "orders"


@dataclass(frozen=True)
class Places:
    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def moved_home(self) -> Path:
        return self.root / "home.away"

    @property
    def home_url(self) -> str:
        return f"file://{self.home}"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def table(self) -> Path:
        return self.root / "table"

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def pipeline(self) -> Path:
        return self.root / "orders.py"

    @property
    def scratch(self) -> Path:
        """Spark's local directories, which a killed driver leaves behind."""
        return self.root / "scratch"

    @property
    def log(self) -> Path:
        return self.root / "driver.log"

    @property
    def plain_program(self) -> Path:
        return self.root / "plain_orders.py"

    @property
    def plain_table(self) -> Path:
        return self.root / "plain" / "table"

    @property
    def plain_checkpoint(self) -> Path:
        return self.root / "plain" / "checkpoint"

    @property
    def moved_plain_checkpoint(self) -> Path:
        return self.root / "plain" / "checkpoint.away"

    @property
    def plain_log(self) -> Path:
        return self.root / "plain.log"

    def short(self, text: str) -> str:
        """`text` with paths relative to the demo's directory."""
        return text.replace(f"{self.root}/", "")


def make_places(directory: Path | None) -> Places:
    """A fresh temporary directory, or `directory`, which must be empty or absent."""
    if directory is None:
        root = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    else:
        root = directory.absolute()
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise InvalidSettings.of("dir", str(directory), "must be an empty directory, or absent")
        root.mkdir(parents=True, exist_ok=True)
    places = Places(root)
    for path in (places.home, places.input, places.scratch):
        path.mkdir()
    for program in (places.pipeline, places.plain_program):
        program.write_bytes(Path(__file__).with_name(program.name).read_bytes())
    return places
