"""The names of a job's objects. An object with another name is foreign: it is listed, but never read or deleted.

Keys of blobs and packs end in the fencing epoch of the run that uploaded them. With the digest alone, a run that stalls
between retiring and deleting could delete an object that its successor has just uploaded again.

File systems and people leave foreign names: `.nfs…` of a file that was deleted while open, `.DS_Store`, an editor's
backup `x~`, a partial copy.
"""

import re

JOURNAL = "journal/"
FOLDS = "folds/"
MANIFESTS = "manifests/"
BLOBS = "blobs/"
PACKS = "packs/"
PLANS = "plans/"
FOLDERS = (JOURNAL, FOLDS, MANIFESTS, BLOBS, PACKS, PLANS)
"""Foreign names are reported below these."""

_SEQUENCE = r"\d{20}\.json"
_DIGEST = r"[0-9a-f]{64}"
_EPOCH = r"(?:0|[1-9]\d{0,18})"
_ENTRY = re.compile(rf"journal/{_SEQUENCE}", re.ASCII)
_FOLD = re.compile(rf"folds/{_SEQUENCE}", re.ASCII)
_MANIFEST = re.compile(rf"manifests/{_DIGEST}", re.ASCII)
_BLOB = re.compile(rf"blobs/([0-9a-f]{{2}})/\1[0-9a-f]{{62}}\.{_EPOCH}", re.ASCII)
_PACK = re.compile(rf"packs/{_DIGEST}\.{_EPOCH}", re.ASCII)
_PLAN = re.compile(r"plans/\d{20}-[0-9a-f]{8}/\d{20}", re.ASCII)


def is_entry(key: str) -> bool:
    return _ENTRY.fullmatch(key) is not None


def is_fold(key: str) -> bool:
    return _FOLD.fullmatch(key) is not None


def is_manifest(key: str) -> bool:
    return _MANIFEST.fullmatch(key) is not None


def is_blob_or_pack(key: str) -> bool:
    return (_BLOB.fullmatch(key) or _PACK.fullmatch(key)) is not None


def is_plan(key: str) -> bool:
    return _PLAN.fullmatch(key) is not None


def is_foreign(key: str) -> bool:
    """Of a key below one of `FOLDERS`."""
    return not (is_entry(key) or is_fold(key) or is_manifest(key) or is_blob_or_pack(key) or is_plan(key))
