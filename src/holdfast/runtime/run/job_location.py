"""Where a job lives: its home, its work directory, and what is known of both before a run claims it."""

from dataclasses import dataclass
from pathlib import Path

from holdfast.identifiers import JobName
from holdfast.repository.ownership import Silence
from holdfast.runtime.run.environment import Environment
from holdfast.settings import RunSettings
from holdfast.storage.interface import ObjectStore
from holdfast.storage.metered import Meter
from holdfast.workdir.interface import WorkDirectory


@dataclass(frozen=True)
class JobLocation:
    """A job in its home, looked at and found free. Nothing has been written yet."""

    job: JobName
    home: str
    store: ObjectStore
    work: WorkDirectory
    settings: RunSettings
    around: Environment
    meter: Meter | None = None
    """Counts what is asked of the home."""
    begins: bool = True
    """It has no completed checkpoint."""
    silence: Silence | None = None
    """What was watched, and did not change, before the job was found free."""
    root: ObjectStore | None = None
    """The home itself, which has an identity; None where it has none."""
    state_file: Path | None = None
    """Where the run tells this host how it is, also while the home cannot be written."""
