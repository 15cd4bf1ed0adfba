"""Changes of local and remote files: streams, deletions, moves. Storage that fails or does not answer raises ``WriteError``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from state_processor.backends.files.location import Location
from state_processor.backends.files.storage import Storage, StoredFile, storage_errors
from state_processor.support.errors import WriteError

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_OBJECT_STORES: Final = frozenset({"s3", "gs"})
_LARGEST_COPY: Final = 5 << 30
"""The largest object that S3 copies with one request."""
_NEVER_REPLACE: Final = frozenset({"hdfs", "viewfs"})


class FileSink:
    """New file. The first write creates it; :meth:`close` creates it if it is empty.

    ``storage``: access to files. ``path``: the path or URL of the file.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.name = Location.parse(path).name
        self.size = 0
        self._storage = storage
        self._path = path
        self._stream: pa.NativeFile | None = None
        self._is_complete = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append."""
        self._do(self._opened().write, data)
        self.size += len(data)

    def copy(self, source: StoredFile) -> bool:
        """Let the storage copy another file to this one. The bytes do not pass through this process.

        Returns: whether the storage made a copy. Local file systems can, and object stores within a bucket.
        """
        storage, source_location, target_location = self._storage, Location.parse(source.path), Location.parse(self._path)
        if source_location.is_local and target_location.is_local:
            with storage_errors(self._path, doing="written", kind=WriteError):
                shutil.copyfile(source_location.path, target_location.path)
        elif (
            source.size <= _LARGEST_COPY
            and source_location.scheme in _OBJECT_STORES
            and source.storage.is_alike(storage, source_location, target_location)
        ):
            inner = storage.filesystem(source.path)[1]
            storage.call(self._path, lambda filesystem, target: filesystem.copy_file(inner, target), "written", WriteError)
        else:
            return False
        self.size, self._is_complete = source.size, True
        return True

    def close(self) -> None:
        """Make the file complete."""
        if not self._is_complete:
            self._do(self._opened().close)

    def _opened(self) -> pa.NativeFile:
        if self._stream is None:
            self._stream = self._storage.call(
                self._path, lambda files, inner: files.open_output_stream(inner), "written", WriteError
            )
        return self._stream

    def _do(self, action: Callable[..., object], *arguments: object) -> None:
        self._storage.call(self._path, lambda *_: action(*arguments), "written", WriteError)

    def __enter__(self) -> FileSink:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
            return
        with suppress(WriteError):  # the first error is raised
            self.close()


_BUFFER: Final = 1 << 20


class BufferedSink:
    """New file with a buffer for small writes. Large data is written without a copy.

    ``sink``: the file; it is closed at the end. ``beginning``: the first bytes.
    """

    def __init__(self, sink: FileSink, beginning: bytearray) -> None:
        self._sink = sink
        self._buffer = beginning

    @property
    def position(self) -> int:
        """Bytes of the file so far."""
        return self._sink.size + len(self._buffer)

    def write(self, data: bytes | memoryview) -> None:
        """Append; raises ``WriteError`` as :meth:`FileSink.write`."""
        if len(data) >= _BUFFER:
            self._flush()
            self._sink.write(data)
            return
        self._buffer += data
        if len(self._buffer) >= _BUFFER:
            self._flush()

    def close(self) -> None:
        """Make the file complete; raises ``WriteError`` as :meth:`FileSink.write`."""
        self._flush()
        self._sink.close()

    def _flush(self) -> None:
        self._sink.write(self._buffer)
        self._buffer = bytearray()


def make_directory(storage: Storage, path: str) -> None:
    """Create a directory and its parents. Object stores don't need directories."""
    if Location.parse(path).scheme not in _OBJECT_STORES:
        storage.call(path, lambda filesystem, inner: filesystem.create_dir(inner, recursive=True), "made", WriteError)


def remove_file(storage: Storage, path: str) -> None:
    """Remove a file if it exists."""

    def remove(filesystem: pafs.FileSystem, inner: str) -> None:
        with suppress(FileNotFoundError):
            filesystem.delete_file(inner)

    storage.call(path, remove, "removed", WriteError)


def move_file(storage: Storage, path: str, target: str) -> None:
    """Move a file within its storage, and replace the target if it exists.

    The target appears atomically: file systems rename the file, object stores copy it. HDFS does not replace files, so the target
    is removed first.
    """

    def move(filesystem: pafs.FileSystem, inner: str) -> None:
        if Location.parse(target).scheme in _NEVER_REPLACE:
            with suppress(FileNotFoundError):
                filesystem.delete_file(inner)
        filesystem.move(storage.filesystem(path)[1], inner)

    storage.call(target, move, "written", WriteError)
