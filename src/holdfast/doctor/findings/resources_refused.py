"""YARN or Kubernetes does not give the application what it asks for."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "resources-refused"
_VARIANTS = (
    (
        "yarn-maximum",
        re.compile(
            r"is above the max threshold|InvalidResourceRequest"
            r"|exceeds the maximum (?:allowed|available|memory|virtual)"
        ),
    ),
    (
        "failures",
        re.compile(r"Max number of executor failures \(|Maximum number of failed (?:containers|workers)"),
    ),
    ("image", re.compile(r"ErrImagePull|ImagePullBackOff|InvalidImageName")),
    ("nothing-yet", re.compile(r"Initial job has not accepted any resources")),
    ("unschedulable", re.compile(r"nodes are available|[Uu]nschedulable")),
)


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    for name, pattern in _VARIANTS:
        if pattern.search(text):
            return Clue(shown(event, link_with(event, pattern)), name)
    return None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the cluster does not give the application what it asks for",
    rules=(
        Rule(
            CODE,
            (
                "is above the max threshold",
                "InvalidResourceRequest",
                "exceeds the maximum",
                "Max number of executor failures (",
                "Maximum number of failed ",
                "ErrImagePull",
                "ImagePullBackOff",
                "InvalidImageName",
                " nodes are available: ",
                "Initial job has not accepted any resources",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "yarn-maximum",
            "a container of this size is larger than YARN gives to anybody: memory and overhead together count",
            Fix(
                flink=(
                    "taskmanager.memory.process.size: <at most yarn.scheduler.maximum-allocation-mb>",
                    "# or raise yarn.scheduler.maximum-allocation-mb and yarn.nodemanager.resource.memory-mb",
                ),
                spark=(
                    "spark.executor.memory=<with its overhead below the maximum that is named>",
                    "# or raise yarn.scheduler.maximum-allocation-mb and yarn.nodemanager.resource.memory-mb",
                ),
            ),
            for_variant("yarn-maximum", weight=60),
        ),
        Cause(
            "failures",
            "so many containers failed that the application was ended; the first one that failed shows why",
            Fix(
                flink=("# look for the exit code and the end of the log of the first container that failed",),
                spark=(
                    "spark.executor.failuresValidityInterval=1h",
                    "# look for the exit code and the end of the log of the first container that failed",
                ),
            ),
            for_variant("failures", weight=55),
        ),
        Cause(
            "image",
            "the image cannot be pulled: its name or tag is wrong, or the pull secret is missing",
            Fix(
                flink=("kubernetes.container.image.ref: <image>", "kubernetes.container.image.pull-secrets: <secret>"),
                spark=(
                    "spark.kubernetes.container.image=<image>",
                    "spark.kubernetes.container.image.pullSecrets=<secret>",
                ),
            ),
            for_variant("image", weight=60),
        ),
        Cause(
            "nothing-yet",
            "no executor has taken a task: there are no workers, none has as much memory and as many cores free as one "
            "executor asks for, or executors end while they start because they cannot reach the driver",
            Fix(
                spark=(
                    "spark.executor.memory=<less than one worker has free>",
                    "spark.executor.cores=<at most those of one worker>",
                    "spark.cores.max=<so that other applications leave some>",
                    "spark.driver.host=<an address that the workers reach>",
                    "# the page of the master or of YARN shows what is free; the log of an executor, why it ended",
                ),
            ),
            for_variant("nothing-yet", weight=55),
        ),
        Cause(
            "unschedulable",
            "no node has room for the pod, or its selectors, taints and volumes fit none: the message counts the nodes "
            "for each reason",
            Fix(
                flink=(
                    "kubernetes.taskmanager.cpu.amount: <less>",
                    "taskmanager.memory.process.size: <less>",
                    "# kubectl describe nodes shows what is allocatable and taken",
                ),
                spark=(
                    "spark.kubernetes.executor.request.cores=<less>",
                    "spark.executor.memory=<less>",
                    "# kubectl describe nodes shows what is allocatable and taken",
                ),
            ),
            always(50),
        ),
    ),
    references=("Spark docs: Running on YARN", "Spark docs: Running on Kubernetes"),
)
