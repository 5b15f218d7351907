"""The platform, the storage or the broker refused the job."""

import re

from holdfast.doctor.findings.knowledge import Cause, Fix, Knowledge, always, for_variant
from holdfast.doctor.matching.clues import Clue, Rule
from holdfast.doctor.reading.events import LogEvent
from holdfast.doctor.reading.text import link_with, shown, whole

CODE = "access-denied"
_KUBERNETES = re.compile(r"is forbidden: User|Forbidden!\s?Configured service account|cannot \w+ (?:resource )?\"?pods")
_KAFKA = re.compile(
    r"(?:Topic|Group|Cluster|TransactionalId)AuthorizationException|Sasl(?:Authentication)?Exception|SslAuthentication"
)
_STORAGE = re.compile(
    r"AccessDenied|Access Denied|AccessControlException|Status Code: 403|403 Forbidden|InvalidAccessKeyId"
    r"|StatusCode=403|SignatureDoesNotMatch|ExpiredToken"
    r"|does not have storage\.objects|AuthorizationPermissionMismatch|Permission denied: user="
    r"|request is not authorized to perform this operation"
    r"|Unable to load (?:AWS )?credentials|Failed to connect to service endpoint"
)
_OTHER_FINDINGS = re.compile(r"[Cc]heckpoint|[Ss]avepoint|[Ss]napshot|chk-\d|[Ss]tate ?[Ss]tore|[Oo]ffset commit|ommit")


def _recognise(event: LogEvent) -> Clue | None:
    """What concerns a checkpoint is the finding about writing or reading it."""
    text = whole(event)
    for name, pattern in (("kubernetes", _KUBERNETES), ("kafka", _KAFKA), ("storage", _STORAGE)):
        if pattern.search(text) and (name == "kubernetes" or not _OTHER_FINDINGS.search(text)):
            failed = event.exceptions or event.level in ("ERROR", "FATAL", None)
            return Clue(shown(event, link_with(event, pattern)), name) if failed else None
    return None


KNOWLEDGE = Knowledge(
    code=CODE,
    severity="critical",
    symptom="the job was refused what it asked for",
    rules=(
        Rule(
            CODE,
            (
                "is forbidden: User",
                "Forbidden!",
                "AuthorizationException",
                "SaslAuthenticationException",
                "AccessDenied",
                "Access Denied",
                "AccessControlException",
                "Status Code: 403",
                "InvalidAccessKeyId",
                "SignatureDoesNotMatch",
                "ExpiredToken",
                "does not have storage.objects",
                "AuthorizationPermissionMismatch",
                "StatusCode=403",
                "request is not authorized to perform this operation",
                "Failed to connect to service endpoint",
                "Permission denied: user=",
            ),
            _recognise,
        ),
    ),
    causes=(
        Cause(
            "kubernetes",
            "the service account of the pod may not do this in its namespace",
            Fix(
                flink=(
                    "kubectl create clusterrolebinding flink --clusterrole=edit --serviceaccount=<namespace>:<account>",
                    "kubernetes.service-account: <account>",
                ),
                spark=(
                    "kubectl create rolebinding spark --clusterrole=edit --serviceaccount=<namespace>:<account>",
                    "spark.kubernetes.authenticate.driver.serviceAccountName=<account>",
                ),
            ),
            for_variant("kubernetes", weight=65),
        ),
        Cause(
            "kafka",
            "the broker does not accept the job's user, or does not allow it this topic, group or transactional id",
            Fix(
                flink=(
                    "# kafka-acls --add --allow-principal User:<name> --operation Read --topic <topic> --group <group>",
                ),
                spark=(
                    "# kafka-acls --add --allow-principal User:<name> --operation Read --topic <topic> --group <group>",
                ),
            ),
            for_variant("kafka", weight=60),
        ),
        Cause(
            "storage",
            "the job's role may not read or write this place, or its credentials are wrong or have expired",
            Fix(
                flink=(
                    "# give the job's role read, write, list and delete there; compare its keys with those in the pod",
                ),
                spark=("# give the job's role read, write, list and delete there; compare its keys with the driver's",),
            ),
            always(50),
        ),
    ),
)
