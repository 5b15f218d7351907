"""What an error of an object store means to holdfast, and a message that is fit to be shown.

obstore gives an error as text: what the server answered, or how the connection broke. The text can hold request
signatures, access key ids, account names and signed URLs, so nothing of it is passed on but the HTTP status and the
error's code, and the original exception is not kept as cause.
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
_CODE = re.compile(r"<Code>(\w{1,64})</Code>|\"(?:code|reason|error)\": *\"(\w{1,64})\"")
_CONNECTING = re.compile(r"legacy::Error\(\s*Connect\b|kind: Connect\b|dns error")
_TIMED_OUT = re.compile(r"kind: Timeout\b|TimedOut|operation timed out")
_ASKED_FOR_CREDENTIALS = re.compile(
    r"Error performing \w+ https?://(?:169\.254\.|\[?fd00:ec2|metadata\.google|oauth2\.googleapis|accounts\.google|"
    r"sts\.|login\.microsoftonline|\S*/oauth2/)|TokenRequest|TokenResponse|InstanceCredential|CredentialProvider"
)
"""The failed request was one for credentials, not one to the store."""

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
_PASSING = {408, 500, 502, 503, 504}
"""Faults that pass. A write may have taken effect all the same: a 503 can be a load balancer's, which cannot know."""


@dataclass(frozen=True)
class Answer:
    """What is known of a failed request."""

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
        """Of a conditional put that was refused. Else another write is under way, and its end is open."""
        return self.code not in _OTHER_IS_WRITING

    @property
    def no_container(self) -> bool:
        return self.code in _NO_CONTAINER

    @property
    def beyond_the_end(self) -> bool:
        return self.status == 416 or self.code in ("InvalidRange", "InvalidBlobOffset") or "StartTooLarge" in self.text


class Effect(Enum):
    """What a request does, as far as it matters when no answer came."""

    NONE = "reads"
    REPEATABLE = "writes what may be written twice"
    DECIDING = "writes, and the caller must know whether it did"


def named(operation: str, subject: str, error: BaseException, effect: Effect) -> StorageError:
    """The error to raise for `error`, which came from trying to `operation` the object or place `subject`."""
    answer = Answer.of(error)
    kind, reason, hint = _cause(answer, isinstance(error, FileNotFoundError), effect)
    return kind(f"could not {operation} {subject}: {reason}", hint=hint)


def _cause(answer: Answer, is_missing: bool, effect: Effect) -> tuple[type[StorageError], str, str | None]:
    if _ASKED_FOR_CREDENTIALS.search(answer.text):
        return StorageDenied, "no valid credentials could be had", "set the credentials; docs/stores.md names the ways"
    if answer.status is None:
        return _broken(answer, effect)
    said = f"the server answered {answer.status}" + (f" {answer.code}" if answer.code else "")
    if answer.no_container or (is_missing and effect is not Effect.NONE and not answer.code):
        return StorageNotThere, f"{said}: there is no such bucket or container", "create it, or check its name"
    if is_missing and effect is Effect.NONE:
        return ObjectNotFound, "there is no such object", None
    if answer.code in _FULL or answer.status == 507:
        return StorageFull, said, "free space in the home, or raise its quota"
    if answer.code in _THROTTLED or answer.status == 429:
        return StorageThrottled, f"{said}: it asks for fewer requests", "raise interval, or lower parallelism"
    if answer.code in _OTHER_REGION or answer.status in (301, 307):
        return StorageNotThere, f"{said}: the bucket is in another region", "give its region: ?region=NAME"
    if answer.code in _DENIED or answer.status in (401, 403):
        return StorageDenied, said, "check the credentials and what they permit"
    if answer.status in _PASSING or answer.code in _OTHER_IS_WRITING:
        in_doubt = effect is Effect.DECIDING and answer.status in _PASSING
        return (OutcomeUnknown if in_doubt else StorageUnreachable), said, None
    return StorageError, said, None


def _broken(answer: Answer, effect: Effect) -> tuple[type[StorageError], str, str | None]:
    """No answer of the store itself."""
    if "redirect without LOCATION" in answer.text:
        return StorageNotThere, "the bucket seems to be in another region", "give its region: ?region=NAME"
    if _CONNECTING.search(answer.text):
        reason = "the server's name is unknown" if "dns error" in answer.text else "no connection to the server"
        return StorageUnreachable, reason, "check the endpoint and the network"
    reason = "no answer in time" if _TIMED_OUT.search(answer.text) else "the connection broke"
    return (OutcomeUnknown if effect is Effect.DECIDING else StorageUnreachable), reason, None
