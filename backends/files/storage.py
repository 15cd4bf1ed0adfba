"""Access to files of a snapshot, wherever they are: local paths and URLs of any scheme.

``file:`` is read directly (large files memory-mapped), ``s3:``, ``gs:`` and ``hdfs:`` by :mod:`pyarrow.fs`, every other
scheme by :mod:`fsspec`. What is read is a ``memoryview`` that numpy views without a copy.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow.fs as pafs

from state_processor.serializers.errors import MissingFileError, OptionError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

_URL: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?:\?(?P<query>.*))?", re.DOTALL
)
_ALIASES: Final = {"s3a": "s3", "s3n": "s3", "s3p": "s3", "gcs": "gs"}
_PYARROW_SCHEMES: Final = frozenset({"gs", "hdfs", "viewfs"})


class Location(NamedTuple):
    """A path or URL taken apart; a local file has neither scheme nor authority."""

    scheme: str
    authority: str
    path: str
    query: str = ""

    @classmethod
    def parse(cls, path: str | os.PathLike[str]) -> Location:
        """Parse a local path, ``file:/…``, ``file:///…`` or any other URL.

        Raises
        ------
        OptionError
            A ``file:`` URL that names a host.
        """
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
        # Flink writes paths into file: URLs without encoding them, and a local path has no query
        return cls("", "", match["path"] + (f"?{match['query']}" if match["query"] is not None else ""))

    @property
    def segments(self) -> list[str]:
        """The parts of the path, without empty ones."""
        return [part for part in self.path.split("/") if part]

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return not self.scheme

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The directory that holds it; the root is its own parent."""
        head, slash, _ = self.path.rstrip("/").rpartition("/")
        return self._replace(path=head or ("/" if slash or self.path.startswith("/") or self.scheme else "."))

    def joined(self, relative: str) -> Location:
        """A path below this directory."""
        return self._replace(path=f"{self.path.rstrip('/')}/{relative.lstrip('/')}") if relative else self

    def __str__(self) -> str:
        if self.is_local:
            return self.path
        return f"{self.scheme}://{self.authority}{self.path}" + (f"?{self.query}" if self.query else "")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory in a listing."""

    name: str
    path: str
    is_directory: bool
    size: int


class _OpenFile:
    """A file that can be read at any offset."""

    size: int

    def read(self, offset: int, length: int) -> memoryview:
        raise NotImplementedError


class _LocalFile(_OpenFile):
    """Read range by range: pages of a mapped file would count as memory of the process for as long as it is open."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - open for as long as the object lives
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, offset: int, length: int) -> memoryview:
        data = bytearray(length)
        filled = 0
        while filled < length:
            got = os.preadv(self._file.fileno(), [memoryview(data)[filled:]], offset + filled)
            if not got:
                break  # the file has shrunk since it was opened: the caller compares lengths
            filled += got
        return memoryview(data)[:filled]


class _RemoteFile(_OpenFile):
    def __init__(self, filesystem: pafs.FileSystem, path: str) -> None:
        self._file = filesystem.open_input_file(path)
        self.size = self._file.size()

    def read(self, offset: int, length: int) -> memoryview:
        return memoryview(self._file.read_at(length, offset))  # type: ignore[call-arg]


class Storage:
    """Reads files by path or URL; it can be pickled, and its connections are made where they are used.

    Parameters
    ----------
    options
        Settings of S3, by the names of ``pyarrow.fs.S3FileSystem``: ``endpoint_override``, ``region``, ``scheme``,
        ``access_key``, ``secret_key``, ``session_token``, ``anonymous``. The query of a URL
        (``s3://bucket/path?endpoint_override=localhost:9000&scheme=http``) adds to them for all files of that scheme, and
        the environment (``AWS_ENDPOINT_URL``, ``AWS_ACCESS_KEY_ID``, …) gives what neither names.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        self.options = dict(options or {})
        self._queries: dict[str, str] = {}
        self._filesystems: dict[tuple[str, str], pafs.FileSystem] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_queries": self._queries, "_filesystems": {}}

    def filesystem(self, path: str | os.PathLike[str]) -> tuple[pafs.FileSystem, str]:
        """The pyarrow file system of a path or URL, and the path in it (for what this class does not do, such as writing).

        Raises
        ------
        UnsupportedFormatError
            No file system for the scheme is installed.
        OptionError
            Settings that the file system does not know.
        """
        location = Location.parse(path)
        if location.query:
            self._queries.setdefault(location.scheme, location.query)
        key = (location.scheme, location.authority)
        filesystem = self._filesystems.get(key)
        if filesystem is None:
            filesystem = self._filesystems[key] = self._connect(location)
        return filesystem, self._path_in(location)

    def _connect(self, location: Location) -> pafs.FileSystem:
        query = self._queries.get(location.scheme, "")
        if location.is_local:
            return pafs.LocalFileSystem()
        if location.scheme == "s3":
            return _s3(location.authority, {**self.options, **dict(parse_qsl(query))})
        url = f"{location.scheme}://{location.authority}" + (f"/?{query}" if query else "/")
        if location.scheme in _PYARROW_SCHEMES:
            return pafs.FileSystem.from_uri(url)[0]
        return _fsspec(location)

    @staticmethod
    def _path_in(location: Location) -> str:
        """How the file system of a location names its path."""
        if location.scheme in ("", "hdfs", "viewfs"):
            return location.path
        return f"{location.authority.rpartition('@')[2]}{location.path}".strip("/")

    def _open(self, path: str | os.PathLike[str], context: str) -> _OpenFile:
        location = Location.parse(path)
        try:
            if location.is_local:
                return _LocalFile(location.path)
            return _RemoteFile(*self.filesystem(path))
        except FileNotFoundError:
            raise MissingFileError(f"{_of(context)}{path} does not exist") from None
        except OSError as e:
            raise MissingFileError(f"{_of(context)}{path} cannot be read: {e}") from e

    def read_all(self, path: str | os.PathLike[str], context: str = "") -> memoryview:
        """The whole file.

        Parameters
        ----------
        path
            A local path or a URL.
        context
            What the file belongs to (operator, state), for the error message.

        Raises
        ------
        MissingFileError
            There is no such file, or it cannot be read.
        """
        file = self._open(path, context)
        return file.read(0, file.size)

    def read_range(self, path: str | os.PathLike[str], offset: int, length: int, context: str = "") -> memoryview:
        """``length`` bytes from ``offset`` on.

        Raises
        ------
        MissingFileError
            There is no such file, it cannot be read, or it ends before the range does.
        """
        return self.open(path, context).read(offset, length)

    def open(self, path: str | os.PathLike[str], context: str = "", recorded_size: int | None = None) -> StoredFile:
        """The file, to be read at any offset.

        Parameters
        ----------
        path, context
            As for :meth:`read_all`.
        recorded_size
            The length that the snapshot says the file has at least.

        Raises
        ------
        MissingFileError
            There is no such file, it cannot be read, or it is shorter than recorded.
        """
        return StoredFile(self, os.fspath(path), context, recorded_size)

    def size(self, path: str | os.PathLike[str], context: str = "") -> int:
        """Length of a file in bytes.

        Raises
        ------
        MissingFileError
            There is no such file.
        """
        size = self.size_if_file(path)
        if size is None:
            raise MissingFileError(f"{_of(context)}{path} does not exist")
        return size

    def size_if_file(self, path: str | os.PathLike[str]) -> int | None:
        """Length of a file in bytes, ``None`` if there is no such file."""
        info = self._info(path)
        return int(info.size) if info.type is pafs.FileType.File else None

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether there is a file or a directory."""
        return self._info(path).type is not pafs.FileType.NotFound

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Whether there is a file."""
        return self._info(path).type is pafs.FileType.File

    def is_directory(self, path: str | os.PathLike[str]) -> bool:
        """Whether there is a directory."""
        return self._info(path).type is pafs.FileType.Directory

    def _info(self, path: str | os.PathLike[str]) -> pafs.FileInfo:
        filesystem, inner = self.filesystem(path)
        try:
            return filesystem.get_file_info(inner)
        except OSError as e:
            raise MissingFileError(f"{path} cannot be reached: {e}") from e

    def list(self, path: str | os.PathLike[str]) -> list[Entry]:
        """Files and directories in a directory, sorted by name; empty if there is no such directory.

        Raises
        ------
        MissingFileError
            The directory cannot be read.
        """
        filesystem, inner = self.filesystem(path)
        location = Location.parse(path)
        try:
            infos = filesystem.get_file_info(pafs.FileSelector(inner or "/", allow_not_found=True))
        except OSError as e:
            raise MissingFileError(f"{path} cannot be listed: {e}") from e
        return sorted(
            (
                Entry(i.base_name, str(location.joined(i.base_name)), i.type is pafs.FileType.Directory, int(i.size or 0))
                for i in infos
            ),
            key=lambda entry: entry.name,
        )


class StoredFile:
    """A file of a snapshot, opened at the first read.

    Attributes
    ----------
    path
        Where it is.
    """

    def __init__(self, storage: Storage, path: str, context: str, recorded_size: int | None) -> None:
        self._storage = storage
        self._context = context
        self._recorded_size = recorded_size
        self.path = path

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_file"}

    @cached_property
    def _file(self) -> _OpenFile:
        file = self._storage._open(self.path, self._context)
        if self._recorded_size is not None and file.size < self._recorded_size:
            raise MissingFileError(
                f"{_of(self._context)}{self.path} has {file.size} bytes, the snapshot says {self._recorded_size}; "
                "it was copied incompletely or is another file"
            )
        return file

    @property
    def size(self) -> int:
        """Actual length of the file in bytes."""
        return self._file.size

    def read(self, offset: int, length: int) -> memoryview:
        """``length`` bytes from ``offset`` on.

        Raises
        ------
        MissingFileError
            The file is not there, or ends before the range does.
        """
        file = self._file
        if offset < 0 or length < 0 or offset + length > file.size:
            raise MissingFileError(
                f"{_of(self._context)}{self.path} has {file.size} bytes, {offset} to {offset + length} are wanted"
            )
        data = file.read(offset, length)
        if len(data) < length:
            end = offset + len(data)
            raise MissingFileError(f"{_of(self._context)}{self.path} ends at {end}: it has shrunk while it was read")
        return data


def _of(context: str) -> str:
    return f"{context}: " if context else ""


def _s3(bucket: str, options: dict[str, str]) -> pafs.FileSystem:
    user, _, _ = bucket.rpartition("@")
    if user:
        options["access_key"], _, options["secret_key"] = (unquote(part) for part in user.partition(":"))
    from_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = options.pop("endpoint_override", None) or from_environment
    arguments: dict[str, Any] = dict(options)
    if endpoint:
        parsed = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        arguments["endpoint_override"] = parsed.netloc
        arguments.setdefault("scheme", parsed.scheme or "https")
    if "anonymous" in arguments:
        arguments["anonymous"] = str(arguments["anonymous"]).lower() == "true"
    if not endpoint and "region" not in arguments and "AWS_REGION" not in os.environ and "AWS_DEFAULT_REGION" not in os.environ:
        arguments["region"] = _region(bucket.rpartition("@")[2])
    try:
        return pafs.S3FileSystem(**arguments)
    except TypeError as e:
        raise OptionError(f"unknown setting of S3: {e}") from None


def _region(bucket: str) -> str | None:
    try:
        return str(pafs.resolve_s3_region(bucket))
    except OSError:
        return None  # S3FileSystem has a default, and the first access names the real problem


def _fsspec(location: Location) -> pafs.FileSystem:
    import fsspec

    try:
        filesystem, _ = fsspec.core.url_to_fs(str(location._replace(query="")))
    except (ImportError, ValueError) as e:
        raise UnsupportedFormatError(
            f"{location}: no file system for {location.scheme}:// ({e}); install the fsspec package that has it"
        ) from None
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))  # type: ignore[abstract]
