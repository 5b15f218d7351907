"""Errors of HDFS as errors of a store, with what a user can do about them."""

import re

from holdfast.errors import StorageDenied, StorageError, StorageFull, StorageUnreachable

_JAVA = re.compile(r'^(?:Fatal)?RPCError\("(?P<kind>[\w.$]+)", "(?P<text>.*)"\)$', re.DOTALL)
_OWN = re.compile(r'^(?P<kind>\w+)(?:\("(?P<text>.*)"\))?$', re.DOTALL)
_NO_TARGET = re.compile(r"There are (?P<running>\d+) datanode\(s\) running and (?P<excluded>\w+) node\(s\) are excl")
_DENIED = ("AccessControlException", "AuthorizationException", "InvalidToken", "SASLError", "GSSAPIError", "NoSASL")


def failure(attempt: str, error: Exception) -> StorageError:
    """`attempt` says what was attempted on what: "create hdfs://…"."""
    kind, text = _kind_and_text(error)
    cause, hint = _cause(kind, text)
    return cause(f"could not {attempt}: {text}", hint=hint)


def reason(error: Exception) -> str:
    """The reason in one line, without the NameNode's stack."""
    return _kind_and_text(error)[1]


def _cause(kind: str, text: str) -> tuple[type[StorageError], str | None]:
    if kind.endswith("QuotaExceededException"):
        return StorageFull, "raise the quota of the directory (hdfs dfsadmin -setSpaceQuota), or lower retained"
    if any(name in kind for name in _DENIED):
        return (
            StorageDenied,
            "check the directory's owner (hdfs dfs -ls), HADOOP_USER_NAME, the Kerberos ticket (klist)",
        )
    if kind.endswith("SafeModeException"):
        full = "Resources are low" in text
        return (StorageFull if full else StorageUnreachable), "ask the NameNode why: hdfs dfsadmin -safemode get"
    if target := _NO_TARGET.search(text):
        return _no_datanode(int(target["running"]), target["excluded"])
    if "DataNode" in text:
        return StorageUnreachable, "check which DataNodes are alive: hdfs dfsadmin -report"
    if "NameNode" in text:
        return StorageUnreachable, "check host and port, and that the NameNode runs: hdfs dfsadmin -report"
    return StorageUnreachable, None


def _no_datanode(running: int, excluded: str) -> tuple[type[StorageError], str]:
    if running and excluded in ("0", "no"):
        # They are alive, none of them failed for this client, and yet the NameNode uses none.
        return StorageFull, "free space on the DataNodes (hdfs dfsadmin -report), or wait if they are only overloaded"
    return StorageUnreachable, "start the DataNodes: hdfs dfsadmin -report"


def _kind_and_text(error: Exception) -> tuple[str, str]:
    """The kind of the error (a Java class, or hdfs-native's own name) and its text in one line.

    hdfs-native formats errors for debugging: Kind("text"), with line ends as \\n. The NameNode adds its stack trace,
    one "at …" per line, and DataNodes are shown with all their fields.
    """
    shown = str(error).strip()
    found = _JAVA.match(shown) or _OWN.match(shown)
    kind, text = (found["kind"], found["text"] or found["kind"]) if found else ("", shown)
    first = re.split(r"(?:\\n|\n)(?:\\t|\t)at |: \[DatanodeInfoProto", text)[0]
    return kind, re.sub(r"(?:\\n|\s)+", " ", first).strip() or type(error).__name__
