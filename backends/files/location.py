"""Locations of files: parsed local paths and URLs."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

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
    place, around = Location.given(inner), Location.given(outer)
    if place.is_local and around.is_local:
        path, directory = os.path.realpath(place.path), os.path.realpath(around.path)
        return path == directory or path.startswith(directory.rstrip("/") + "/")
    if (place.scheme, place.authority) != (around.scheme, around.authority):
        return False
    return f"{place.path.rstrip('/')}/".startswith(f"{around.path.rstrip('/')}/")
