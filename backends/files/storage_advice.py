"""Advice in messages: about unreachable storage, by the URL and the words of the client's error, and about missing files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from state_processor.support.doors import spelled

_AZURE: Final = "install it: pip install adlfs"
_HDFS: Final = "set JAVA_HOME to a JDK, HADOOP_HOME to a Hadoop client, and CLASSPATH to the output of 'hadoop classpath --glob'"
_BY_SCHEME: Final = {
    "abfs": _AZURE,
    "abfss": _AZURE,
    "adl": _AZURE,
    "az": _AZURE,
    "dbfs": "on Databricks pass /dbfs/…; elsewhere set instance and token in {storage_options}, or copy the snapshot",
    "gs": "",
    "hdfs": _HDFS,
    "http": "install them: pip install aiohttp requests",
    "https": "install them: pip install aiohttp requests",
    "oss": "install it: pip install ossfs",
    "s3": "",
    "sftp": "install it: pip install paramiko",
    "viewfs": _HDFS,
    "wasb": _AZURE,
    "wasbs": _AZURE,
}
"""Advice about each known scheme: requirements other than this package."""

_BY_ERROR: Final = (
    ("NETWORK_CONNECTION|ould not (connect|resolve)", "check endpoint_override and region in {storage_options}, and the network"),
    ("ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|HTTP status 40[13]", "check access_key and secret_key in {storage_options}"),
    ("HTTP status 301|PermanentRedirect", "check region in {storage_options}"),
    ("NO_SUCH_BUCKET|bucket name", "check the bucket: s3://BUCKET/PATH"),
    ("both access_key and secret_key|secret_key. is not set", "set both in {storage_options}, or neither"),
    ("non-directory entry exists|Errno 20", "a file has this name; pass another directory"),
    ("Cannot create directory", "pass a directory that you can write to"),
    ("Permission denied|Errno 13", "ask for permission to read it, or read as another user"),
)
"""Advice about errors whose text matches a regular expression."""

_LONGEST: Final = 160


def what_to_do(scheme: str, error: str = "") -> str:
    """Return the advice at the end of a message about storage; an empty string if no advice is known.

    ``scheme``: the scheme of the URL; empty for a local path. ``error``: the text of the error of the storage's client.
    """
    advice = next((advice for words, advice in _BY_ERROR if re.search(words, error)), "") or _BY_SCHEME.get(scheme, "")
    return "; " + advice.format(storage_options=spelled("storage_options")) if advice else ""


def unknown_scheme(scheme: str) -> str:
    """Return the end of a message about a scheme without a known file system."""
    near = get_close_matches(scheme, _BY_SCHEME, n=1, cutoff=0.5)
    if near:
        return f"; did you mean {near[0]}://?"
    return f"; known are local paths, {', '.join(f'{name}://' for name in _BY_SCHEME)} and schemes of installed fsspec packages"


def unknown_setting(error: str, settings: Iterable[str]) -> str:
    """Return a message about the settings of a file system, from the error of its constructor.

    ``error``: the text of the ``TypeError``, which quotes the setting.
    """
    names = sorted(settings)
    quoted = re.search(r"unexpected keyword argument '(\w+)'", error)
    if quoted is None:
        return f"{spelled('storage_options')}: settings of its file system are missing or unknown ({error})"
    near = get_close_matches(quoted[1], names, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}" if names else "leave it out"
    return f"{spelled('storage_options')}: the file system does not have a setting {quoted[1]!r}; {hint}"


def in_short(error: str) -> str:
    """Return the first line of an error's text, shortened."""
    line = error.strip().partition("\n")[0].strip().rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def absent(file: str) -> str:
    """Return the message for a missing file."""
    return f"{file} does not exist.\nIt was removed, or not copied with the snapshot: copy it there"


def incomplete(file: str, size: int, recorded_size: int) -> str:
    """Return the message for a file with another size than recorded."""
    return f"{file} has {size} bytes; the snapshot records {recorded_size}.\nIt was copied incompletely: copy it again"
