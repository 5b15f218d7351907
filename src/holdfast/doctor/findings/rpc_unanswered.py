"""One process of Flink asked another one, and got no answer in time."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_context, for_variant
from holdfast.doctor.matching.case import CONTEXT
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import shown, whole

CODE = "rpc-unanswered"
_OVERSIZED = re.compile(r"OversizedPayload|maximum (?:akka|pekko) framesize|frame ?size")
_SILENT = re.compile(r"Remote system has been silent|remote system has quarantined this system")
_ADDRESS = re.compile(r"inbound addresses are \[")
_REGISTRATION = re.compile(r"RegistrationTimeoutException|Could not register at the ResourceManager within")
_DEPLOYING = re.compile(r"Cannot deploy task|submitTask")


def _recognise(event: LogEvent) -> Clue | None:
    """A question that is asked again is no trouble: only what failed counts."""
    text = whole(event)
    if "heckpoint" in text or not (event.exceptions or event.level in ("ERROR", "FATAL", None)):
        return None
    if _OVERSIZED.search(text) and "oversized payload or" not in text:
        return Clue(shown(event), "oversized")
    if _ADDRESS.search(text):
        return Clue(shown(event), "address")
    if _REGISTRATION.search(text):
        return Clue(shown(event), "registration")
    if _SILENT.search(text):
        return Clue(shown(event), "silent")
    return Clue(shown(event), "deploying" if _DEPLOYING.search(text) else "")


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="a JobManager or TaskManager did not answer in time",
    rules=(
        Rule(
            CODE,
            (
                "AskTimeoutException",
                "Ask timed out on [",
                "not responding after a rpcTimeout",
                "Remote system has been silent",
                "remote system has quarantined this system",
                "OversizedPayloadException",
                "framesize",
                "inbound addresses are [",
                "RegistrationTimeoutException",
                "Could not register at the ResourceManager within",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "oversized",
            "the message is larger than a frame may be: a large job graph, many partitions, or a large result",
            Fix(flink=("akka.framesize: 104857600b", "# from 1.18 on: pekko.framesize: 104857600b")),
            for_variant("oversized", weight=65),
        ),
        Cause(
            "pause",
            "the process that was asked paused: garbage collection, or too little CPU",
            Fix(
                flink=(
                    "jobmanager.memory.process.size: 4g",
                    "taskmanager.memory.process.size: <half as much again>",
                    "akka.ask.timeout: 60s",
                    "# from 1.18 on: pekko.ask.timeout: 60s",
                )
            ),
            for_context(CONTEXT + "pause", weight=60),
        ),
        Cause(
            "address",
            "the process is called under another name than it listens under, so it drops every message",
            Fix(
                flink=(
                    "jobmanager.rpc.address: <the name under which the TaskManagers reach it>",
                    "taskmanager.host: <the address under which the JobManager reaches it>",
                    "jobmanager.bind-host: 0.0.0.0",
                    "taskmanager.bind-host: 0.0.0.0",
                )
            ),
            for_variant("address", weight=60),
        ),
        Cause(
            "registration",
            "a TaskManager did not find the JobManager in time and ended itself: wrong address, closed port, no leader",
            Fix(
                flink=(
                    "jobmanager.rpc.address: <the name under which the TaskManagers reach it>",
                    "taskmanager.registration.timeout: 10 min",
                    "# nc -z <that name> 6123 from the TaskManager's pod or host",
                )
            ),
            for_variant("registration", weight=55),
        ),
        Cause(
            "silent",
            "the other process is gone: it was killed, or its host lost the network",
            Fix(
                flink=("# check the end of that TaskManager's own log, and its exit code", "heartbeat.timeout: 120000")
            ),
            for_variant("silent", weight=50),
        ),
        Cause(
            "deploying",
            "the TaskManager did not accept a task in time: it is overloaded or starved of CPU, loads large jars, or "
            "the network between the two is slow",
            Fix(
                flink=(
                    "akka.ask.timeout: 60s",
                    "# from 1.18 on: pekko.ask.timeout: 60s",
                    "# check CPU and garbage collection of that TaskManager; taskmanager.memory.process.size, cpu",
                )
            ),
            for_variant("deploying", weight=45),
        ),
        Cause(
            "slow",
            "the process that was asked is overloaded, pauses or is gone; or the network between the two is slow",
            Fix(
                flink=(
                    "akka.ask.timeout: 60s",
                    "# from 1.18 on: pekko.ask.timeout: 60s",
                    "# check CPU, garbage collection and the end of the log of the process that was asked",
                )
            ),
            always(20),
        ),
    ),
    heals=True,
    references=("Flink docs: Configuration, Pekko",),
)
