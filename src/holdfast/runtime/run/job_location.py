"""Where a job is: its home, its work directory, and what is known of both before a run claims it."""

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
    """A job in its home that may be claimed. Nothing has been written yet."""

    job: JobName
    home: str
    store: ObjectStore
    work: WorkDirectory
    settings: RunSettings
    around: Environment
    meter: Meter | None = None
    """Counts the requests to the home."""
    begins: bool = True
    """It has no completed checkpoint."""
    silence: Silence | None = None
    """The silence that was watched before the job was found claimable."""
    root: ObjectStore | None = None
    """The root of the home, which has an identity; None where it has none."""
    state_file: Path | None = None
    """The run's state file on this host, also written while the home is unreachable."""
