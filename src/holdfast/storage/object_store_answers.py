"""What an error of an object store means to holdfast, with a message that is safe to show.

obstore returns an error as text: the server's answer, or how the connection broke. The text can hold request
signatures, access key ids, account names and signed URLs. So only the HTTP status and the error code are passed on, and
the original exception is not kept as cause.

Gateways and proxies answer with any status. So a deciding write counts as "not done", and an object as "not there",
only when the answer has an error code that stores are known to send. Else the write is unknown, and the read is
retried.
"""

import re
from dataclasses import dataclass
from enum import Enum

from holdfast.errors import (
    ObjectNotFound,
    OutcomeUnknown,
    StorageDenied,
    StorageError,
    StorageFull,
    StorageNotThere,
    StorageThrottled,
    StorageUnreachable,
)

_STATUS = re.compile(r"inner: (?:Status|Response) \{\s*status: (\d{3})|non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([\w.]{1,64})</Code>|\"(?:code|reason|error)\": *\"([\w.]{1,64})\"")
_ONE_OF_SEVERAL = re.compile(
    r"DeleteFailed \{[^}]*\bcode: \"404\"[^}]*\breason: \"The specified (blob|container) does not"
)
"""Azure deletes in batches: the answer for one object is inside the answer for all, which has no error status."""
_CONNECTING = re.compile(r"legacy::Error\(\s*Connect\b|kind: Connect\b|dns error")
_TIMED_OUT = re.compile(r"kind: Timeout\b|TimedOut|operation timed out")
_ASKED_FOR_CREDENTIALS = re.compile(
    r"Error performing \w+ https?://(?:169\.254\.|\[?fd00:ec2|metadata\.google|oauth2\.googleapis|accounts\.google|"
    r"sts\.|login\.microsoftonline|\S*/oauth2/)|TokenRequest|TokenResponse|InstanceCredential|CredentialProvider"
)
"""The failed request was one for credentials, not one to the store."""

_NO_OBJECT = {"NoSuchKey", "BlobNotFound", "PathNotFound", "NoSuchVersion"}
_EXISTS = {"PreconditionFailed", "BlobAlreadyExists", "ConditionNotMet", "conditionNotMet", "PathAlreadyExists"}
_NO_CONTAINER = {"NoSuchBucket", "ContainerNotFound", "AccountNotFound", "FilesystemNotFound", "NoSuchContainer"}
_DENIED = {
    "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "RequestExpired",
    "TokenRefreshRequired", "AuthenticationFailed", "AuthorizationFailure", "AuthorizationPermissionMismatch",
    "AllAccessDisabled", "AccountProblem", "RequestTimeTooSkewed", "NoAuthenticationInformation", "InvalidGrant",
    "invalid_grant", "invalid_client", "ContainerDisabled", "AccountIsDisabled",
}  # fmt: skip
_FULL = {
    "QuotaExceeded", "InsufficientCapacity", "XMinioStorageFull", "StorageFull", "InsufficientStorage",
    "AccountUsageLimitExceeded", "XAmzQuotaExceeded", "quotaExceeded", "TooManyObjects",
}  # fmt: skip
_THROTTLED = {
    "SlowDown", "SlowDownRead", "SlowDownWrite", "ServerBusy", "TooManyRequests", "RequestLimitExceeded",
    "Throttling", "ThrottlingException", "RequestThrottled", "rateLimitExceeded", "userRateLimitExceeded", "Busy",
}  # fmt: skip
_OTHER_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_OTHER_IS_WRITING = {"ConditionalRequestConflict", "OperationAborted"}
_REFUSED = {
    "InvalidArgument", "InvalidRequest", "InvalidURI", "InvalidUri", "InvalidBucketName", "InvalidResourceName",
    "MalformedXML", "MethodNotAllowed", "NotImplemented", "KeyTooLongError", "EntityTooLarge", "RequestBodyTooLarge",
    "MissingContentLength", "MissingSecurityHeader", "BadDigest", "InvalidDigest", "Md5Mismatch", "InvalidHeaderValue",
    "UnsupportedHeader", "UnsupportedHttpVerb", "XAmzContentSHA256Mismatch", "InvalidObjectState",
    "KMS.DisabledException", "KMS.NotFoundException", "KMS.KMSInvalidStateException", "KMS.InvalidKeyUsageException",
}  # fmt: skip
"""Refusals of the store itself that only a user can resolve."""
_PASSING_4XX = {400, 404, 405, 408, 409, 425, 499}
"""Without a store's code a gateway sent these; the request may not even have reached the store."""


@dataclass(frozen=True)
class Answer:
    """What is known about a failed request."""

    status: int | None
    code: str
    text: str

    @classmethod
    def of(cls, error: BaseException) -> "Answer":
        text = str(error)
        status = _STATUS.search(text)
        code = _CODE.search(text)
        return cls(
            int(next(filter(None, status.groups()))) if status else None,
            next(filter(None, code.groups())) if code else "",
            text,
        )

    @property
    def an_object_exists(self) -> bool:
        """For a conditional put that was refused. Else another write is in progress, and its outcome is unknown."""
        return self.code in _EXISTS or (self.status == 412 and not self.code)

    @property
    def no_object(self) -> bool:
        """By the error code of the store itself. A bare 404 is not enough: any gateway can send that."""
        return self.code in _NO_OBJECT or self._one_of_several == "blob"

    @property
    def no_container(self) -> bool:
        return self.code in _NO_CONTAINER or self._one_of_several == "container"

    @property
    def _one_of_several(self) -> str:
        found = _ONE_OF_SEVERAL.search(self.text)
        return found[1] if found else ""

    @property
    def beyond_the_end(self) -> bool:
        return self.status == 416 or self.code in ("InvalidRange", "InvalidBlobOffset") or "StartTooLarge" in self.text


class Effect(Enum):
    """What a request does, as far as it matters when there is no answer."""

    NONE = "reads"
    REPEATABLE = "writes what may be written twice"
    DECIDING = "writes, and the caller must know whether it did"


Cause = tuple[type[StorageError], str, str | None]


def named(operation: str, subject: str, error: BaseException, effect: Effect) -> StorageError:
    """The error to raise for `error`, which came from trying to `operation` the object or place `subject`."""
    kind, reason, hint = _cause(Answer.of(error), effect)
    return kind(f"could not {operation} {subject}: {reason}", hint=hint)


def _cause(answer: Answer, effect: Effect) -> Cause:
    """For a deciding write, unknown is the default: only known error codes of the store mean "not done"."""
    if _ASKED_FOR_CREDENTIALS.search(answer.text):
        return StorageDenied, "no valid credentials were found", "set the credentials, see docs/stores.md"
    if answer.no_container:
        return (
            StorageNotThere,
            f"{_answer_text(answer)}: there is no such bucket or container",
            "create it, or check its name",
        )
    if answer.status is None:
        return _broken(answer, effect)
    if (refused := _by_code(answer, effect)) is not None:
        return refused
    kind, reason, hint = _by_status(answer)
    return (OutcomeUnknown if effect is Effect.DECIDING else kind), reason, hint


def _answer_text(answer: Answer) -> str:
    return f"the server answered {answer.status or 404}" + (f" {answer.code}" if answer.code else "")


def _by_code(answer: Answer, effect: Effect) -> Cause | None:
    """By the error code of the store; None when the answer may not be from the store."""
    answered = _answer_text(answer)
    if answer.no_object and effect is Effect.NONE:
        return ObjectNotFound, "there is no such object", None
    if answer.code in _FULL:
        return StorageFull, answered, _FREE
    if answer.code in _THROTTLED:
        return StorageThrottled, f"{answered}: requests are throttled", _SLOWER
    if answer.code in _OTHER_REGION:
        return StorageNotThere, f"{answered}: the bucket is in another region", _REGION
    if answer.code in _DENIED:
        return StorageDenied, answered, _PERMIT
    if answer.code in _OTHER_IS_WRITING:
        return StorageUnreachable, answered, None
    if answer.code in _REFUSED:
        return StorageError, answered, None
    return None


_FREE = "free space in the home, or raise its quota"
_SLOWER = "raise interval, or lower parallelism"
_REGION = "give its region: ?region=NAME"
_PERMIT = "check the credentials and what they permit"


def _by_status(answer: Answer) -> Cause:
    """By the status alone: the store or a gateway sent it."""
    answered, status = _answer_text(answer), answer.status or 0
    if status == 507:
        return StorageFull, answered, _FREE
    if status == 429:
        return StorageThrottled, f"{answered}: requests are throttled", _SLOWER
    if status in (301, 307):
        return StorageNotThere, f"{answered}: the bucket is in another region", _REGION
    if status in (401, 403):
        return StorageDenied, answered, _PERMIT
    if status == 404 and not answer.code:
        return (
            StorageUnreachable,
            f"{answered}, without an error code of the store",
            "check the endpoint and the gateway",
        )
    if status >= 500 or (status in _PASSING_4XX and not answer.code):
        return StorageUnreachable, answered, None
    return StorageError, answered, None


def _broken(answer: Answer, effect: Effect) -> Cause:
    """There was no answer of the store."""
    if "redirect without LOCATION" in answer.text:
        return StorageNotThere, "the bucket seems to be in another region", _REGION
    if _CONNECTING.search(answer.text):
        reason = "the server's name is unknown" if "dns error" in answer.text else "no connection to the server"
        return StorageUnreachable, reason, "check the endpoint and the network"
    reason = "no answer in time" if _TIMED_OUT.search(answer.text) else "the connection broke"
    return (OutcomeUnknown if effect is Effect.DECIDING else StorageUnreachable), reason, None
