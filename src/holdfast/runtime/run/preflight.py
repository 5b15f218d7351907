"""What is refused before anything is changed, and before Spark spends seconds on its start."""

from dataclasses import replace
from pathlib import Path

from holdfast.identifiers import JobName
from holdfast.job_log import phase
from holdfast.repository.going_back import Wanted, decide, naming_the_request
from holdfast.repository.journal import Journal
from holdfast.runtime.job_folder import require_no_work_directory
from holdfast.runtime.run.claiming import agreed, require_claimable
from holdfast.runtime.run.comparing import compare_here
from holdfast.runtime.run.environment import Environment
from holdfast.runtime.run.job_location import JobLocation
from holdfast.runtime.run.places import require_apart
from holdfast.settings import RunSettings
from holdfast.storage.metered import Meter
from holdfast.storage.urls import open_store, require_create_if_absent
from holdfast.workdir.interface import WorkDirectory


def preflight(
    job: JobName,
    home: str,
    work: WorkDirectory,
    settings: RunSettings,
    around: Environment,
    sink: str | None = None,
    state_file: Path | None = None,
) -> JobLocation:
    """Checks everything that can be refused without a change, the fastest checks first.

    `sink` is the sink's description. What it holds is compared in `launch`: that needs Spark.
    """
    require_apart(home, work.location, sink)
    meter = Meter(around.clock.monotonic)
    root = open_store(home, deadline=settings.storage_deadline_s, meter=meter)
    store = root.scoped(job)
    location = JobLocation(job, home, store, work, settings, around, meter, root=root, state_file=state_file)
    require_no_work_directory(work)
    journal = Journal(store, new_attempt=around.new_attempt, now=around.clock.wall)
    with phase("journal"):
        silence = require_claimable(location, journal)
    agreed(location, journal, lambda state: compare_here(location, state))
    wanted = Wanted(settings.from_savepoint, settings.from_checkpoint)
    with naming_the_request(job, lambda: journal.state, wanted):
        decide(journal.state, wanted)
    require_create_if_absent(root)
    return replace(location, begins=not journal.state.completed, silence=silence)
