"""A JobManager lost its leadership, or what decides about it."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "leader-lost"
_ZOOKEEPER = re.compile(r"KeeperErrorCode|ZooKeeper|curator")


def _recognise(event: LogEvent) -> Clue | None:
    text = whole(event)
    if "heckpoint" in text or not (event.exceptions or event.level in ("ERROR", "FATAL", None)):
        return None
    return Clue(shown(event), "zookeeper" if _ZOOKEEPER.search(text) else "")


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the JobManager lost its leadership, or could not get it",
    rules=(
        Rule(
            CODE,
            (
                "KeeperErrorCode = ConnectionLoss",
                "KeeperErrorCode = SessionExpired",
                "FencingTokenException",
                "Fencing token not set",
                "lost leadership",
                "Leadership revoked",
                "leader election service",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "zookeeper",
            "ZooKeeper did not answer: its address is wrong, it is down, or the JobManager paused too long",
            Fix(
                flink=(
                    "high-availability.zookeeper.quorum: <host:2181 of each server>",
                    "high-availability.zookeeper.client.session-timeout: 120000",
                    "high-availability.zookeeper.client.tolerate-suspended-connections: true",
                    "# echo ruok | nc <host> 2181 from the JobManager answers imok",
                )
            ),
            for_variant("zookeeper", weight=60),
        ),
        Cause(
            "leadership",
            "the JobManager that was asked is not the leader: it starts, or another one took over",
            Fix(
                flink=(
                    "# ask again in a minute; if it lasts, the leader's address in ZooKeeper or the ConfigMap is wrong",
                    "high-availability.cluster-id: <of this cluster alone>",
                    "jobmanager.memory.process.size: 4g",
                )
            ),
            always(30),
        ),
    ),
    heals=True,
)
