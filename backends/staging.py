"""Where a new savepoint's files go until ``_metadata`` makes them one: names of one write, that abort takes away again.

Files are written where they stay, since renaming costs a copy in an object store. What tells them from others is the
write's own token at the begin of their names; until ``_metadata`` is there, nothing reads them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from state_processor.backends.snapshot_dir import METADATA_FILE
from state_processor.backends.storage import Location, Storage, StoredFile
from state_processor.serializers.errors import MissingFileError, OptionError

_TOKEN: Final = re.compile(r"[0-9A-Za-z]{4,64}")


class Sink(Protocol):
    """Where bytes of one file go."""

    name: str

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append."""

    def close(self) -> None:
        """Make the file complete."""


@dataclass(frozen=True)
class Staging:
    """The directory of a savepoint that is being written; it can be pickled.

    Parameters
    ----------
    directory
        The savepoint's directory, as a path or URL.
    token
        Names this write: letters and digits, different from those of other writes into the directory.
    storage
        Access to files.
    replaces
        Whether the directory may hold a savepoint: it stays until the commit replaces its ``_metadata``.
    """

    directory: str
    token: str
    storage: Storage = field(default_factory=Storage)
    replaces: bool = False

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise OptionError(f"token {self.token!r}: 4 to 64 letters and digits are wanted")
        location = Location.parse(self.directory)
        if location.is_local:  # tasks elsewhere have another working directory
            object.__setattr__(self, "directory", os.path.abspath(location.path))

    def prepare(self) -> None:
        """Make the directory.

        Raises
        ------
        OptionError
            If it holds a savepoint already.
        MissingFileError
            If it can't be made.
        """
        filesystem, path = self._inner("")
        if not self.replaces and self.storage.exists(self._path(METADATA_FILE)):
            raise OptionError(f"{self.directory} holds a savepoint already; write to another directory, or overwrite it")
        try:
            filesystem.create_dir(path, recursive=True)
        except OSError as problem:
            raise MissingFileError(f"{self.directory} can't be made: {problem}") from problem
        self.open(self._mark).close()

    @property
    def _mark(self) -> str:
        """A file that is there while the write goes on."""
        return f"{self.token}-open"

    def is_open(self) -> bool:
        """Whether the write goes on; what a task that was left behind adds later would never be removed."""
        return self.storage.exists(self._path(self._mark))

    def file_name(self, operator_id: str, what: str, subtask: int, attempt: str | int = 0) -> str:
        """The name of a subtask's file; attempts of one task have different ones, so that they never meet."""
        return f"{self.token}-{operator_id[:8]}-{what}-{subtask}-{attempt}"

    @property
    def is_local(self) -> bool:
        """Whether the directory is in a file system of this machine, which others may share."""
        return Location.parse(self.directory).is_local

    def file(self, name: str) -> StoredFile:
        """A file that is complete, to be read."""
        return self.storage.open(self._path(name))

    def open(self, name: str) -> FileSink:
        """A new file.

        Raises
        ------
        MissingFileError
            If it can't be made.
        """
        filesystem, path = self._inner(name)
        try:
            return FileSink(name, filesystem.open_output_stream(path))
        except OSError as problem:
            raise MissingFileError(f"{self._path(name)} can't be written: {problem}") from problem

    def remove_all_but(self, names: Collection[str]) -> None:
        """Remove this write's files but for those that are named: what attempts that failed have left."""
        if self.is_open() and self._mark not in names:
            self.remove(self._mark)
        for entry in self.storage.list(self.directory):
            if not entry.is_directory and entry.name.startswith(f"{self.token}-") and entry.name not in names:
                self.remove(entry.name)

    def remove(self, name: str) -> None:
        """Remove a file of this write, if it is there."""
        filesystem, path = self._inner(name)
        with suppress(FileNotFoundError):
            filesystem.delete_file(path)

    def abort(self) -> None:
        """Remove all files of this write, and the directory where nothing else is in it."""
        self.remove_all_but(())
        if Location.parse(self.directory).is_local and not self.storage.list(self.directory):
            filesystem, path = self._inner("")
            if filesystem.get_file_info(path).type is pafs.FileType.Directory:
                filesystem.delete_dir(path)

    def commit(self, metadata: bytes, names: Collection[str]) -> None:
        """Remove what failed attempts have left, then write ``_metadata``: from then on this is a savepoint.

        Parameters
        ----------
        metadata
            The bytes of ``_metadata``.
        names
            The files that it refers to.

        Raises
        ------
        OptionError
            If somebody else has written a savepoint here meanwhile.
        """
        if not self.replaces and self.storage.exists(self._path(METADATA_FILE)):
            raise OptionError(f"{self.directory} has been filled with another savepoint meanwhile")
        self.remove_all_but(names)
        if not Location.parse(self.directory).is_local:
            with self.open(METADATA_FILE) as sink:  # an object store shows it when it is complete, not before
                sink.write(metadata)
            return
        name = f"{self.token}-metadata"
        with self.open(name) as sink:
            sink.write(metadata)
        filesystem, path = self._inner(name)
        filesystem.move(path, self._inner(METADATA_FILE)[1])

    def present_metadata(self) -> memoryview | None:
        """``_metadata`` of the savepoint that is there."""
        path = self._path(METADATA_FILE)
        return self.storage.read_all(path) if self.storage.is_file(path) else None

    def _path(self, name: str) -> str:
        return str(Location.parse(self.directory).joined(name))

    def _inner(self, name: str) -> tuple[pafs.FileSystem, str]:
        return self.storage.filesystem(self._path(name))


class FileSink:
    """A file that is being written."""

    def __init__(self, name: str, stream: pa.NativeFile) -> None:
        self.name = name
        self.size = 0
        self._stream = stream

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append."""
        self._stream.write(data)
        self.size += len(data)

    def close(self) -> None:
        """Make the file complete."""
        self._stream.close()

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
