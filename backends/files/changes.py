"""Changes of files, wherever they are: streams, deletions, moves. Storage that fails, or does not answer, is a ``WriteError``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pyarrow.fs as pafs

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage
from state_processor.serializers.errors import WriteError

_OBJECT_STORES: Final = frozenset({"s3", "gs"})
_NEVER_REPLACE: Final = frozenset({"hdfs", "viewfs"})


class FileSink:
    """New file that is being written.

    Parameters
    ----------
    storage
        Access to files.
    path
        The path or URL of the file.

    Raises
    ------
    WriteError
        If it can't be made.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.name = Location.parse(path).name
        self.size = 0
        self._storage = storage
        self._path = path
        self._stream = storage.call(path, lambda filesystem, inner: filesystem.open_output_stream(inner), "written", WriteError)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append.

        Raises
        ------
        WriteError
            If there is no room, or the storage fails otherwise.
        """
        self._do(lambda: self._stream.write(data))
        self.size += len(data)

    def close(self) -> None:
        """Make the file complete.

        Raises
        ------
        WriteError
            As for :meth:`write`.
        """
        self._do(self._stream.close)

    def _do(self, action: Callable[[], object]) -> None:
        self._storage.call(self._path, lambda *_: action(), "written", WriteError)

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(WriteError):  # the first error is the one to tell
            self.close()


def make_directory(storage: Storage, path: str) -> None:
    """Make a directory and those above it; nothing in object stores, which have none."""
    if Location.parse(path).scheme not in _OBJECT_STORES:
        storage.call(path, lambda filesystem, inner: filesystem.create_dir(inner, recursive=True), "made", WriteError)


def remove_file(storage: Storage, path: str) -> None:
    """Remove a file if it is there."""

    def remove(filesystem: pafs.FileSystem, inner: str) -> None:
        with suppress(FileNotFoundError):
            filesystem.delete_file(inner)

    storage.call(path, remove, "removed", WriteError)


def move_file(storage: Storage, path: str, target: str) -> None:
    """Move a file within its storage, over one that is there.

    The target appears at once: as a name for the file or, in object stores, by a copy in the store. HDFS moves nothing over a
    file: that is removed before.
    """

    def move(filesystem: pafs.FileSystem, inner: str) -> None:
        if Location.parse(target).scheme in _NEVER_REPLACE:
            with suppress(FileNotFoundError):
                filesystem.delete_file(inner)
        filesystem.move(storage.filesystem(path)[1], inner)

    storage.call(target, move, "written", WriteError)
