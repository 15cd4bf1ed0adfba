"""Locations of files: parsed local paths and URLs, and advice in messages about locations that can't be reached."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, NamedTuple

from state_processor.support.doors import spelled
from state_processor.support.errors import MissingFileError, OptionError
from state_processor.support.redaction import redacted

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?:\?(?P<query>.*))?", re.DOTALL
)
_DBFS_MOUNT: Final = "/dbfs"
_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "gcs": "gs"}


class Location(NamedTuple):
    """A parsed path or URL. Scheme and authority of a local file are empty."""

    scheme: str
    authority: str
    path: str
    query: str = ""

    @classmethod
    def parse(cls, path: str | os.PathLike[str]) -> Location:
        """Parse a local path, ``file:/…``, ``file:///…`` or any other URL."""
        text = os.fspath(path)
        match = _URL.fullmatch(text)
        if match is None:
            return cls("", "", text)
        scheme = match["scheme"].lower()
        if match["authority"] is None and scheme != "file" and not match["path"].startswith("/"):
            return cls("", "", text)  # a file name with a colon
        authority = match["authority"] or ""
        if scheme != "file":
            return cls(_ALIASES.get(scheme, scheme), authority, match["path"], match["query"] or "")
        if authority not in ("", "localhost"):
            raise OptionError(
                f"{text!r} names the host {authority!r}; a file URL has three slashes: file:///{authority}{match['path']}"
            )
        # Flink writes paths into file: URLs without encoding them, and local paths don't have a query
        return cls("", "", match["path"] + (f"?{match['query']}" if match["query"] is not None else ""))

    @classmethod
    def given(cls, path: str | os.PathLike[str]) -> Location:
        """Parse a path from a user. The result refers to the same file in every process of this machine.

        ``~`` is the user's home. Other relative paths begin in the working directory. ``dbfs:/`` is replaced with Databricks'
        mount point if that exists.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise OptionError(f"expected a path or URL, found {path!r}")
        if not os.fspath(path):
            raise OptionError("expected a path or URL, found an empty text; the working directory is '.'")
        location = cls.parse(os.path.expanduser(path))
        if location.scheme == "dbfs" and not location.authority and os.path.isdir(_DBFS_MOUNT):
            return cls("", "", _DBFS_MOUNT + location.path)
        return location._replace(path=os.path.abspath(location.path)) if location.is_local else location

    @property
    def segments(self) -> list[str]:
        """The non-empty parts of the path."""
        return [part for part in self.path.split("/") if part]

    @property
    def is_local(self) -> bool:
        """Whether the file is on this machine."""
        return not self.scheme

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The parent directory; the root is its own parent."""
        head, slash, _ = self.path.rstrip("/").rpartition("/")
        return self._replace(path=head or ("/" if slash or self.path.startswith("/") or self.scheme else "."))

    def joined(self, relative: str) -> Location:
        """Return a path below this directory."""
        return self._replace(path=f"{self.path.rstrip('/')}/{relative.lstrip('/')}") if relative else self

    def __str__(self) -> str:
        if self.is_local:
            return self.path
        return f"{self.scheme}://{self.authority}{self.path}" + (f"?{self.query}" if self.query else "")

    def __repr__(self) -> str:
        return f"Location({redacted(str(self))!r})"


def refuse_undecodable(path: str) -> None:
    r"""Refuse a path with bytes that are not UTF-8: tables, JSON and pyarrow's file systems can't hold it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        text = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise MissingFileError(f"{text} cannot be listed: its name is not UTF-8, so tables cannot hold it; rename it") from None


def is_within(inner: str, outer: str) -> bool:
    """Return whether a path or URL leads to a directory, or below it."""
    place, enclosing = Location.given(inner), Location.given(outer)
    if place.is_local and enclosing.is_local:
        path, directory = os.path.realpath(place.path), os.path.realpath(enclosing.path)
        return path == directory or path.startswith(directory.rstrip("/") + "/")
    if (place.scheme, place.authority) != (enclosing.scheme, enclosing.authority):
        return False
    return f"{place.path.rstrip('/')}/".startswith(f"{enclosing.path.rstrip('/')}/")


# Advice: about unreachable storage, by the URL and the words of the client's error, and about missing files.

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
