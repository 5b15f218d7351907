"""`_metadata already exists`: a checkpoint id was used twice in one directory."""

import re

from holdfast.doctor.findings.guides import guide, info_if_told, unless_shown
from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, Sightings, Support
from holdfast.doctor.matching.case import CONTEXT, Case, mentioned
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "metadata-exists"
_FIXED_ID = "0" * 32
_EXISTS = re.compile(r"_metadata\S*(?: for client \S+)? already exists")
_PATH = re.compile(r"([\w+.-]+:/\S*?|/\S*?)/(?:([0-9a-f]{32})/)?chk-\d+/_metadata")


def _recognise(event: LogEvent) -> Clue | None:
    text = "".join(whole(event).split("\n")) if "already exists" in whole(event) else ""
    if not _EXISTS.search(text):
        return None
    mentions = {}
    if path := _PATH.search(text):
        mentions["directory"] = path[1]
        if path[2]:
            mentions["job"] = path[2]
    if event.host:
        mentions["host"] = event.host
    return Clue(shown(event, link_with(event, _EXISTS)), mentions=mentions)


def _two_writers(case: Case, seen: Sightings) -> Support:
    """Several hosts in one directory, or an id that is derived from the cluster's name, as only HA does."""
    if len(mentioned(seen, "host")) > 1:
        return Support(60, seen)
    jobs = mentioned(seen, "job") | {case.job}
    if any(job.startswith("0" * 8) and job.endswith("0" * 16) and job != _FIXED_ID for job in jobs):
        return Support(50, seen)
    return Support(1)


def _same_id_again(case: Case, seen: Sightings) -> Support:
    fresh = case.near(seen, CONTEXT + "fresh-start")
    if _FIXED_ID in mentioned(seen, "job") | {case.job}:
        return Support(55, fresh)
    return Support(45 if fresh else 0, fresh)


_HOLDFAST = (
    "# holdfast takes ids in a journal with create-if-absent: an id is never used twice, and the second of two "
    "deployments is refused",
    'on_conflict="refuse"',
)

KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a checkpoint could not be completed because its _metadata file already exists",
    rules=(
        Rule(CODE, ("_metadata",), _recognise),
        guide(
            CODE,
            "two-deployments",
            "updating the _metadata",
            "are using same NFS mount",
            "separate NFS mounts for each",
            "checkpoint metadata is saved with",
        ),
    ),
    causes=(
        Cause(
            "same-job-id",
            "the job runs under a fixed job id without high availability, so after each restart it counts checkpoints "
            "from 1 again and finds the files of the previous run",
            Fix(
                flink=(
                    "high-availability.type: kubernetes",
                    "high-availability.storageDir: <durable directory>/ha",
                    "# or give each start its own job id: standalone-job.sh --job-id <32 hexadecimal digits>",
                ),
                holdfast=_HOLDFAST,
            ),
            _same_id_again,
        ),
        Cause(
            "two-deployments",
            "two deployments write their checkpoints into one directory under the same job id; the second one finds "
            "the id taken",
            Fix(
                flink=(
                    "state.checkpoints.dir: <directory of this deployment alone>",
                    "kubernetes.cluster-id: <name of this deployment alone>",
                    "state.checkpoints.num-retained: 1",
                    "# one mount or prefix per deployment; fewer retained checkpoints only make collisions rarer",
                ),
                holdfast=_HOLDFAST,
            ),
            _two_writers,
        ),
    ),
    references=("FLINK-12381",),
    enough=unless_shown,
    grade=info_if_told,
)
