"""Secrets in text, by the name before them and by their own shape: a key has the same shape in every setting.

Found by name: what follows `password`, `pwd`, `secret`, `token`, `account.key…`, `Authorization` and the like, in
`name=value`, `name: value`, `"name": "value"`, `--name value`, `(name,value)` and Hadoop's `<name>…</name><value>…`.
Found by shape: private keys, keys of AWS, Azure and Google, JSON web tokens, tokens of well-known services, and any
long run of letters, digits, `+` and `/` that is as mixed as only a key is.
Not found: a short secret in a sentence, without a name.
"""

from __future__ import annotations

import re

from holdfast.showing import MASK, masked

_NAME = (
    r"(?:pass(?:word|wd|phrase)|pwd|\bpass(?==)|secret(?:[._-]?key)?|token|credential|api[._-]?key"
    r"|(?:access|account|private|shared|encryption|master|signing)[._-]?(?:access[._-]?)?(?:key(?:[._-]?id)?|signature)"
    r"|signature|\bsas\b|\bsig\b|x-amz-[\w-]*(?:signature|credential|token)|set-cookie|cookie)"
)
_REST_OF_NAME = r"(?:\.[\w.-]+)?"
"""Such as the account in `fs.azure.account.key.<account>.dfs.core.windows.net`."""
_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s\"',;&)<]+)"
_BY_NAME = (
    re.compile(rf"(?i)({_NAME}{_REST_OF_NAME}[\"']?\s*(?:=>|->|[=:])\s*){_VALUE}"),
    re.compile(rf"(?i)(--?[\w-]*{_NAME}\s+){_VALUE}"),
    re.compile(rf"(?i)(\([\w.-]*{_NAME}{_REST_OF_NAME},\s*)[^\s)]+(?=\))"),
    re.compile(rf"(?i)({_NAME}{_REST_OF_NAME}</name>\s*<value>)[^<]*"),
    re.compile(
        r"(?i)(authorization[\"']?\s*[=:]\s*[\"']?)(?:(?:Bearer|Basic|Token|SharedKey(?:Lite)?|Negotiate) +)?[^\s\"',]+"
    ),
)
_PRIVATE_KEY = re.compile(
    r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----).*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL
)
_SHAPES = re.compile(
    r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{16}\b"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{20,}"
    r"|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}"
    r"|\bxox[abeprs]-[\w-]{10,}|\bdapi[0-9a-f]{32}\b|\b[sr]k_(?:live|test)_\w{10,}|\bhf_[A-Za-z0-9]{30,}|\bnpm_\w{36}"
    r"|\bSG\.[\w-]{16,}\.[\w-]{16,}|\bhvs\.[\w-]{20,}"
)
_LONG = re.compile(r"(?<![\w+/.=-])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/.=-])")


def without_secrets(text: str) -> str:
    text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    text = masked(text)
    for pattern in _BY_NAME:
        text = pattern.sub(rf"\1{MASK}", text)
    return _LONG.sub(_key_masked, _SHAPES.sub(MASK, text))


def _key_masked(found: re.Match[str]) -> str:
    """A digest has one case, a path has many slashes; a key is mixed."""
    run = found[0]
    mixed = all(re.search(kind, run) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return MASK if mixed and run.count("/") <= max(3, len(run) // 16) and not _looks_like_words(run) else run


def _looks_like_words(run: str) -> bool:
    """Long class names have long runs of letters; a key has digits and changes of case everywhere."""
    return max(map(len, re.findall(r"[a-z]+", run)), default=0) >= 8
