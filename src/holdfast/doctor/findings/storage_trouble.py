"""What is wrong with a storage, by the messages of its clients. Shared by the findings about writing and reading."""

import re

_SPACE = re.compile(
    r"No space left on device|Disk quota exceeded|DiskOutOfSpace|DSQuotaExceeded|NSQuotaExceeded|quota of .* is "
    r"exceeded"
    r"|XMinioStorageFull|InsufficientStorage|There is not enough space on the disk"
)
_DATANODES = re.compile(
    r"[Aa]ll datanodes .*are bad|could only be (?:replicated|written) to \d+|[Ff]ailed to replace a bad datanode"
    r"|Unable to create new block|Could not obtain block|no longer available.*datanode|Unable to close file because "
    r"the last block"
)
_PERMISSION = re.compile(
    r"Permission denied|AccessDenied|Access Denied|AccessControlException|AuthorizationPermissionMismatch"
    r"|AuthorizationFailure|does not have storage\.objects|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|Read-only file system|\b403 Forbidden|Status Code: 403|, 403,|Unable to load (?:AWS )?credentials"
    r"|No AWS Credentials|GSSException|token.{0,40}(?:is expired|can't be found in cache)"
)
_THROTTLED = re.compile(
    r"SlowDown|Slow Down|reduce your request rate|ServerBusy|rateLimitExceeded|[Rr]ate limit exceeded|TooManyRequests"
    r"|Too Many Requests|Status Code: (?:503|429)|\b429\b.*(?:[Tt]oo "
    r"many|object)|ThrottlingException|RequestLimitExceeded"
)
_MISSING = re.compile(
    r"Path doesn't exist|File does not exist|No lease on|NoSuchBucket|NoSuchKey|ContainerNotFound|FileNotFoundException"
    r"|specified (?:bucket|key|container|path) does not exist|NoSuchFileException|No such file or directory"
    r"|[Mm]kdirs? (?:of \S+ )?failed|mkdirs returned false|Holder \S+ does not have any open files"
    r"|(?:Cannot|Could not|Unable to|Failed to) (?:create|make) (?:\w+ )?(?:directory|parent|folder)"
)
_UNREACHABLE = re.compile(
    r"Connection refused|UnknownHostException|SocketTimeoutException|ConnectTimeoutException|Connection reset"
    r"|NoRouteToHost|Unable to execute HTTP request|Read timed out|Connect to \S+ .*failed|SafeModeException"
    r"|Name node is in safe mode|StandbyException|Failed on local exception|Stale file handle|Input/output error"
    r"|Status Code: 50[0245]|ConnectionPoolTimeout|Timeout waiting for connection from pool|NoHttpResponse"
    r"|KeeperErrorCode = (?:ConnectionLoss|SessionExpired|OperationTimeout)|KubernetesClient(?:Timeout)?Exception"
    r"|Attempt \d+ timed out"
)

FILE_OF_SPARKS_CHECKPOINT_GONE = re.compile(
    r"/(?:sources/\d+|offsets|commits|_spark_metadata|state/\d+/\d+)/(?!\S*\.tmp)\S+ (?:does not|doesn't) exist"
)
"""A writer creates a file; only a reader can find it missing."""

_IN_ORDER = (
    ("disk-full", _SPACE, ("No space", "uota", "OutOfSpace", "StorageFull", "InsufficientStorage", "enough space")),
    (
        "hdfs-datanodes",
        _DATANODES,
        ("atanode", "could only be", "create new block", "obtain block", "Unable to close file"),
    ),
    (
        "throttled",
        _THROTTLED,
        (
            "Slow",
            "request rate",
            "ServerBusy",
            "ateLimit",
            "ate limit",
            "TooMany",
            "Too Many",
            "Status Code: ",
            "429",
            "Throttling",
            "RequestLimit",
        ),
    ),
    (
        "permission",
        _PERMISSION,
        (
            "ermission",
            "Access",
            "Authoriz",
            "storage.objects",
            "Signature",
            "ExpiredToken",
            "Read-only",
            "403",
            "redentials",
            "GSSException",
            "token",
        ),
    ),
    (
        "unreachable",
        _UNREACHABLE,
        (
            "onnect",
            "UnknownHost",
            "SocketTimeout",
            "NoRoute",
            "HTTP request",
            "timed out",
            "SafeMode",
            "safe mode",
            "Standby",
            "local exception",
            "Stale file",
            "output error",
            "Status Code: 50",
            "NoHttpResponse",
            "KeeperErrorCode",
            "KubernetesClient",
        ),
    ),
    (
        "missing-path",
        _MISSING,
        ("exist", "No lease", "NoSuch", "NotFound", "No such file", "kdir", "any open files", "create", "make"),
    ),
)
"""Each with literals, of which one is in every match of the pattern: most texts have none, and searching is fast."""


def storage_trouble(text: str) -> tuple[str, re.Pattern[str]] | None:
    """The most specific trouble that the text names."""
    for name, pattern, parts in _IN_ORDER:
        for part in parts:  # runs for gigabytes of logs: `any` of a generator takes three times as long
            if part in text:
                if pattern.search(text):
                    return name, pattern
                break
    return None
