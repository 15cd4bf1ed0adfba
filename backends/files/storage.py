"""Access to files of a snapshot: local paths and URLs of any scheme.

``file:`` is read directly, ``s3:``, ``gs:`` and ``hdfs:`` by :mod:`pyarrow.fs`, every other scheme by :mod:`fsspec`. Reads return
a ``memoryview`` that numpy views without a copy. Only regular files are opened. Calls to remote storage have a time limit.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from state_processor.backends.files.location import Location, absent, in_short, incomplete, what_to_do
from state_processor.support.errors import MissingFileError, OptionError, StateProcessorError, UnsupportedFormatError, describe
from state_processor.support.locks import process_lock
from state_processor.support.mappings import without_keys
from state_processor.support.recycled_memory import allocate

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow.fs as pafs


_ANSWER_SECONDS: Final = 300.0
"""Time limit of one call to any other remote storage, including retries of its client."""

_T = TypeVar("_T")


class OpenFile:
    """A file that can be read at any offset."""

    size: int

    @property
    def is_current(self) -> bool:
        """False if the path has another file now. Without a file at the path, and in remote storage, the open file counts."""
        return True

    def read(self, offset: int, length: int) -> memoryview:
        raise NotImplementedError


class OpenLocalFile(OpenFile):
    """Local file, read in ranges. It is not mapped: pages of an open mapped file would count as memory of the process."""

    def __init__(self, path: str) -> None:
        # without O_NONBLOCK, opening a pipe without a writer would block
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
            raise kind(f"it is not a regular file ({stat.filemode(mode)})")
        self._file = os.fdopen(descriptor, "rb")
        self._path, self._version = path, _version(os.fstat(descriptor))
        self.size = os.fstat(descriptor).st_size

    @property
    def is_current(self) -> bool:
        """False if the path has another file now."""
        try:
            return _version(os.stat(self._path)) == self._version
        except OSError:
            return True

    def read(self, offset: int, length: int) -> memoryview:
        data = allocate(length).data  # a bytearray would be filled with zeros first
        filled = 0
        while filled < length:
            got = os.preadv(self._file.fileno(), [data[filled:]], offset + filled)
            if not got:
                break  # the file has shrunk since it was opened: the caller compares lengths
            filled += got
        return data[:filled]


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class RemoteFile(OpenFile):
    """File of remote storage."""

    def __init__(self, filesystem: pafs.FileSystem, path: str) -> None:
        def opened() -> tuple[pa.NativeFile, int]:
            file = filesystem.open_input_file(path)
            return file, file.size()

        self._file, self.size = in_time(opened)
        self._mutex = process_lock()

    def read(self, offset: int, length: int) -> memoryview:
        data = memoryview(bytearray(length))
        filled = 0
        while filled < length:  # storage may return fewer bytes than requested
            got = self._read_into(data[filled:], offset + filled)
            if not got:
                break
            filled += got
        return data[:filled]

    def _read_into(self, target: memoryview, offset: int) -> int:
        """Read some bytes.

        The S3 client of pyarrow counts missing bytes of an answer as read, and leaves the buffer unchanged there. To detect this,
        the last byte is set to two different values in turn; a complete read overwrites both.
        """

        def read() -> int:
            with self._mutex:
                self._file.seek(offset)
                return int(self._file.readinto(target))

        for mark in (0x5A, 0xA5):
            target[-1] = mark
            got = in_time(read)
            if got < len(target) or target[-1] != mark:
                return got
        raise OSError(f"the storage returned fewer than {len(target)} bytes at {offset}")


def in_time(call: Callable[[], _T], seconds: float | None = None) -> _T:
    """Run a call to remote storage with a time limit, and return its result."""
    limit = _ANSWER_SECONDS if seconds is None else seconds
    results: list[_T] = []
    failures: list[BaseException] = []

    context = copy_context()  # messages spell options like the caller

    def run() -> None:
        try:
            results.append(context.run(call))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=run, name="state-processor-storage", daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        raise TimeoutError(f"the storage has not answered for {limit:g} seconds")
    if failures:
        raise failures[0]
    return results[0]


_KEPT_OPEN: Final = 64
"""Files that are open before something reads them."""
_ABSENT: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_NO_FILE: Final = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or directory in a listing."""

    name: str
    path: str
    is_directory: bool
    size: int


_NOT_FOUND: Final = "NotFound"
_FILE: Final = "File"
_DIRECTORY: Final = "Directory"
_OTHER: Final = "Unknown"
"""Kinds of paths, with the names of ``pyarrow.fs.FileType``."""


@dataclass(frozen=True, slots=True)
class _Info:
    """What a path is."""

    kind: str
    size: int = 0
    modified_ns: int | None = None

    @property
    def modified(self) -> datetime | None:
        return None if self.modified_ns is None else datetime.fromtimestamp(self.modified_ns / 1e9, UTC)

    @classmethod
    def of(cls, info: pafs.FileInfo) -> _Info:
        return cls(info.type.name, int(info.size or 0), info.mtime_ns)

    @classmethod
    def of_local(cls, path: str) -> _Info:
        try:
            status = os.stat(path)
        except OSError as error:
            if error.errno in _ABSENT:
                return cls(_NOT_FOUND)
            raise
        is_file, is_directory = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
        kind = _FILE if is_file else _DIRECTORY if is_directory else _OTHER
        return cls(kind, status.st_size if is_file else 0, status.st_mtime_ns)


def _ask(location: Location, call: Callable[[], _T]) -> _T:
    return call() if location.is_local else in_time(call)


@contextmanager
def storage_errors(
    place: str, context: str = "", doing: str = "read", kind: type[StateProcessorError] = MissingFileError
) -> Iterator[None]:
    """Convert errors of file systems and their clients in the block to errors of this library.

    ``place``: the path or URL. ``context``: owner of the file (operator, state), for the message. ``doing``: a participle for the
    message: "the storage cannot be …". ``kind``: the class of the error if the storage fails.
    """
    try:
        yield
    except StateProcessorError:
        raise
    except FileNotFoundError as error:
        if kind is not MissingFileError:
            raise kind(f"{_of(context)}{place} cannot be {doing}: {in_short(str(error))}") from error
        raise MissingFileError(absent(f"{context}: {place}") if context else f"{place} does not exist") from None
    except ImportError as error:
        text = f"{_of(context)}{place}: a library for its file system is missing ({in_short(str(error))})"
        raise UnsupportedFormatError(text + _advice(place, "")) from error
    except Exception as error:
        text = str(error) if isinstance(error, OSError) else describe(error)
        raise kind(f"{_of(context)}{place} cannot be {doing}: {in_short(text)}{_advice(place, text)}") from error


def _advice(place: str, error: str) -> str:
    return what_to_do(Location.parse(place).scheme, error)


class Storage:
    """Reads files by path or URL. It can be pickled; each process makes its own connections.

    ``options``: settings of remote file systems; see :func:`~state_processor.backends.files.filesystems.connect`. The query of a
    URL (``s3://bucket/path?endpoint_override=localhost:9000&scheme=http``) adds settings for all files of that scheme.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.options = dict(options or {})
        self._queries: dict[str, str] = {}
        self._filesystems: dict[tuple[str, str], pafs.FileSystem] = {}
        self._open_files: dict[str, OpenFile] = {}
        _storages.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _storages.add(self)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_queries": self._queries, "_filesystems": {}, "_open_files": {}}

    def filesystem(self, path: str | os.PathLike[str]) -> tuple[pafs.FileSystem, str]:
        """Return the pyarrow file system of a path or URL, and the path in it; use it for operations that this class lacks."""
        location = Location.parse(path)
        if location.query and (settings := self._queries.setdefault(location.scheme, location.query)) != location.query:
            raise OptionError(
                f"{location}: expected the settings ?{settings} of an earlier {location.scheme} URL of this call, found "
                f"?{location.query}; one call has one connection for each scheme and bucket"
            )
        key = (location.scheme, location.authority)
        filesystem = self._filesystems.get(key)
        if filesystem is None:
            with storage_errors(str(location), doing="reached"):
                filesystem = _ask(location, lambda: self._connect(location))
            self._filesystems[key] = filesystem
        return filesystem, self._path_in(location)

    def _connect(self, location: Location) -> pafs.FileSystem:
        from state_processor.backends.files.filesystems import connect  # pyarrow.fs imports ssl

        return connect(location, self._queries.get(location.scheme, ""), self.options)

    @property
    def settings(self) -> str:
        """All settings, to compare them: what was opened with some credentials is not used with others."""
        return repr((sorted(self.options.items()), sorted(self._queries.items())))

    def is_alike(self, storage: Storage, location_here: Location, location: Location) -> bool:
        """Return whether a location here and a location of another object are in the same storage, with the same settings."""
        same = (location_here.scheme, location_here.authority) == (location.scheme, location.authority)
        return (
            same
            and self.options == storage.options
            and self._queries.get(location_here.scheme) == storage._queries.get(location_here.scheme)
        )

    @staticmethod
    def _path_in(location: Location) -> str:
        """Return the path of a location within its file system."""
        if location.scheme in ("", "hdfs", "viewfs"):
            return location.path
        return f"{location.authority.rpartition('@')[2]}{location.path}".strip("/")

    def _open(self, path: str | os.PathLike[str], context: str) -> OpenFile:
        location = Location.parse(path)
        with storage_errors(str(location), context):
            if location.is_local:
                return OpenLocalFile(location.path)
            opened = self._open_files.pop(str(location), None)
            if opened is not None:
                return opened
            return RemoteFile(*self.filesystem(path))

    def read_all(self, path: str | os.PathLike[str], context: str = "") -> memoryview:
        """Read the whole file.

        ``path``: a local path or a URL. ``context``: owner of the file (operator, state), for the error message.
        """
        file = self.open(path, context)
        return file.read(0, file.size)

    def open(self, path: str | os.PathLike[str], context: str = "", recorded_size: int | None = None) -> StoredFile:
        """Open the file for reads at any offset.

        ``path`` and ``context``: as for :meth:`read_all`. ``recorded_size``: the minimum length of the file, as recorded in the
        snapshot.
        """
        return StoredFile(self, os.fspath(path), context, recorded_size)

    def open_if_file(self, path: str | os.PathLike[str]) -> StoredFile | None:
        """Open the file now; ``None`` if it does not exist. This takes one request, which reads of the file do not repeat."""
        file = self.open(path)
        try:
            file._opened()
        except MissingFileError as error:
            cause = error.__cause__ or error.__context__
            if isinstance(cause, _NO_FILE) or getattr(cause, "errno", None) in _ABSENT:
                return None
            raise
        return file

    def size(self, path: str | os.PathLike[str], context: str = "") -> int:
        """Return the length of a file in bytes."""
        size = self.size_if_file(path)
        if size is None:
            raise MissingFileError(absent(f"{context}: {path}") if context else f"{path} does not exist")
        return size

    def size_if_file(self, path: str | os.PathLike[str]) -> int | None:
        """Return the length of a file in bytes; ``None`` if it does not exist."""
        entry = self._info(path)
        return entry.size if entry.kind == _FILE else None

    def size_to_open(self, path: str | os.PathLike[str]) -> int | None:
        """Return the length of a file that will be opened next if it exists; see :meth:`size_if_file`.

        S3 takes one request for this and for opening the file. :meth:`size_if_file` also looks for a directory of that name.
        """
        location = Location.parse(path)
        if location.scheme != "s3":
            return self.size_if_file(path)
        stored = self.open_if_file(path)
        if stored is None:
            return None
        if len(self._open_files) >= _KEPT_OPEN:
            self._open_files.clear()  # threads that look for files share it
        opened = self._open_files[str(location)] = stored._opened()
        return opened.size

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the file or directory exists."""
        return self._info(path).kind != _NOT_FOUND

    def is_file(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the path is a file."""
        return self._info(path).kind == _FILE

    def is_directory(self, path: str | os.PathLike[str]) -> bool:
        """Return whether the path is a directory."""
        return self._info(path).kind == _DIRECTORY

    def modified(self, path: str | os.PathLike[str]) -> datetime | None:
        """Return the time of the last change of a file; ``None`` if that is unknown."""
        return self._info(path).modified

    def size_and_time(self, path: str | os.PathLike[str]) -> tuple[int, datetime | None] | None:
        """Return the length of a file and the time of its last change by one request; ``None`` if it does not exist."""
        entry = self._info(path)
        return (entry.size, entry.modified) if entry.kind == _FILE else None

    def _info(self, path: str | os.PathLike[str]) -> _Info:
        location = Location.parse(path)
        if location.is_local:
            with storage_errors(str(location), doing="reached"):
                return _Info.of_local(location.path)
        return self.call(path, lambda filesystem, inner: _Info.of(filesystem.get_file_info(inner)), "reached")

    def call(
        self,
        path: str | os.PathLike[str],
        function: Callable[[pafs.FileSystem, str], _T],
        doing: str,
        kind: type[StateProcessorError] = MissingFileError,
    ) -> _T:
        """Call a function with the pyarrow file system of a path or URL and the path in it, with a time limit for remote storage.

        ``path``: a local path or a URL. ``doing``: a participle for the message: "the storage cannot be …". ``kind``: the class
        of the error if the storage fails.
        """
        with storage_errors(os.fspath(path), doing=doing, kind=kind):
            filesystem, inner = self.filesystem(path)
            return _ask(Location.parse(path), lambda: function(filesystem, inner))

    def forget_listings(self, path: str | os.PathLike[str]) -> None:
        """Drop listings that some file systems of fsspec keep: changes by others have to be seen."""
        handler = getattr(self.filesystem(path)[0], "handler", None)
        if handler is not None and hasattr(handler, "fs"):
            handler.fs.invalidate_cache()

    def list(self, path: str | os.PathLike[str]) -> list[Entry]:
        """Return files and directories in a directory, sorted by name; an empty list if the directory does not exist."""
        location = Location.parse(path)

        def listed(filesystem: pafs.FileSystem, inner: str) -> list[tuple[str, _Info]]:
            from pyarrow.fs import FileSelector

            infos = filesystem.get_file_info(FileSelector(inner or "/", allow_not_found=True))
            return [(info.base_name, _Info.of(info)) for info in infos]

        if location.is_local:
            with storage_errors(str(location), doing="listed"):
                infos = _local_infos(location.path)
        else:
            infos = self.call(path, listed, "listed")
        entries = [Entry(name, str(location.joined(name)), info.kind == _DIRECTORY, info.size) for name, info in infos]
        return sorted(entries, key=lambda entry: entry.name)


def _local_infos(path: str) -> list[tuple[str, _Info]]:
    """Return the content of a directory without symbolic links that lead nowhere; an empty list if it does not exist."""
    try:
        names = os.listdir(path)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        if not os.path.exists(path):  # it would be in a file
            return []
        raise
    infos = [(name, _Info.of_local(os.path.join(path, name))) for name in names]
    return [(name, info) for name, info in infos if info.kind != _NOT_FOUND]


_storages: weakref.WeakSet[Storage] = weakref.WeakSet()


def _connect_again_in_fork() -> None:
    """Forget connections of the parent process: their threads do not exist in the fork."""
    for storage in list(_storages):
        storage._filesystems, storage._open_files = {}, {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connect_again_in_fork)


class ClosedStorage(Storage):
    """Storage whose files are neither looked for nor opened: reads find only what ``_metadata`` itself contains."""

    def _open(self, path: str | os.PathLike[str], context: str) -> OpenFile:
        raise MissingFileError(f"{_of(context)}{path} is not read: only _metadata is")

    def _info(self, path: str | os.PathLike[str]) -> _Info:
        raise MissingFileError(f"{path} is not looked for: only _metadata is read")


class StoredFile:
    """A file of a snapshot, opened at the first read.

    ``storage``: access to the file. ``path``: the path or URL of the file.
    """

    def __init__(self, storage: Storage, path: str, context: str, recorded_size: int | None) -> None:
        self.storage = storage
        self._context = context
        self._recorded_size = recorded_size
        self._open: tuple[int, OpenFile] | None = None
        self.path = path

    def __getstate__(self) -> dict[str, Any]:
        return without_keys(self.__dict__, ("_open",))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _open=None)

    def _opened(self) -> OpenFile:
        """Return the open file; a fork opens it again.

        This is not a ``cached_property``: in Python 3.11 that has one lock for all objects of a class, and files are opened
        concurrently.
        """
        if self._open is not None and self._open[0] == os.getpid():
            return self._open[1]
        file = self.storage._open(self.path, self._context)
        if self._recorded_size is not None and file.size < self._recorded_size:
            raise MissingFileError(incomplete(f"{_of(self._context)}{self.path}", file.size, self._recorded_size))
        self._open = (os.getpid(), file)
        return file

    @property
    def size(self) -> int:
        """Actual length of the file in bytes."""
        return self._opened().size

    @property
    def is_current(self) -> bool:
        """False if the file is open, and its path has another file now."""
        return self._open is None or self._open[1].is_current

    def read(self, offset: int, length: int) -> memoryview:
        """Return ``length`` bytes from ``offset`` on."""
        file = self._opened()
        if offset < 0 or length < 0 or offset + length > file.size:
            raise MissingFileError(
                f"{_of(self._context)}{self.path} has {file.size} bytes; bytes {offset} to {offset + length} are needed"
            )
        with storage_errors(self.path, self._context):
            data = file.read(offset, length)
        if len(data) < length:
            end = offset + len(data)
            raise MissingFileError(f"{_of(self._context)}{self.path} ends at {end}: it has shrunk while it was read")
        return data


def _of(context: str) -> str:
    return f"{context}: " if context else ""
